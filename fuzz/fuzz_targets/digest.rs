//! JSON: has a digest and can be masked, or is refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| aether_testing::fuzz::digest(data));
