//! Frames of events: decode or are refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| aether_testing::fuzz::decode_events(data));
