//! Recordings: are replayed without executing anything, or are refused.
#![no_main]

// Workflows that recordings can be of.
#[path = "../../examples/02_steps_and_effects.rs"]
#[allow(dead_code)]
mod steps_and_effects;

#[path = "../../examples/07_sub_workflows_and_child_runs.rs"]
#[allow(dead_code)]
mod child_runs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| aether_testing::fuzz::replay(data));
