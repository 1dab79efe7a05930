//! Hostile input, from a fixed seed: `fuzz/` gives the same targets to cargo-fuzz.

use std::path::Path;

use aether_testing::fuzz::{self, Mutator, seeds};

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The events of every golden history and of every recording, a frame each.
fn frames() -> Vec<String> {
    let mut frames = Vec::new();
    for text in seeds(folder("histories/v1")) {
        let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
        frames.extend(whole["frames"].as_array().unwrap().iter().map(|frame| frame["events"].to_string()));
    }
    frames
}

/// Golden histories as recordings, and the recordings themselves.
fn recordings() -> Vec<String> {
    let mut recordings = seeds(folder("recordings"));
    for text in seeds(folder("histories/v1")) {
        let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
        let frames = whole["frames"]
            .as_array()
            .unwrap()
            .iter()
            .map(|frame| format!(r#"{{"at":"2026-01-01T00:00:00Z","events":{}}}"#, frame["events"]));
        let frames: Vec<_> = frames.collect();
        recordings.push(format!(
            r#"{{"format":"aether-recording","version":1,"runs":[{{"run":{},"frames":[{}]}}]}}"#,
            whole["run"],
            frames.join(",")
        ));
    }
    recordings
}

/// Says which input it was that broke a target.
fn every(inputs: impl Iterator<Item = Vec<u8>>, target: impl Fn(&[u8])) {
    for (number, input) in inputs.enumerate() {
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| target(&input)));
        assert!(tried.is_ok(), "input {number} broke it:\n{}", String::from_utf8_lossy(&input));
    }
}

#[test]
fn twenty_thousand_frames_decode_or_are_refused() {
    every(Mutator::new(frames(), 1).take(20_000), fuzz::decode_events);
}

#[test]
fn twenty_thousand_values_have_a_digest_or_are_refused() {
    every(Mutator::new(frames(), 2).take(20_000), fuzz::digest);
}

#[test]
fn four_thousand_histories_are_replayed_or_refused_and_nothing_is_executed() {
    every(Mutator::new(recordings(), 3).take(4_000), fuzz::replay);
}

/// What is not mutated is accepted, so that the targets above try more than refusals.
#[test]
fn the_seeds_themselves_are_good() {
    for recording in recordings() {
        let read = aether::recording::Recording::parse(&recording)
            .unwrap_or_else(|error| panic!("{error}:\n{recording}"));
        assert!(read.runs().iter().all(|run| !run.events().unwrap().is_empty()));
        fuzz::replay(recording.as_bytes());
    }
}

#[test]
fn deep_nests_and_huge_numbers_are_refused_or_accepted_and_never_fatal() {
    let deep =
        |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    for value in
        [deep("[", "]", 100_000), deep("{\"a\":", "}", 100_000), "9".repeat(100_000), "\"".repeat(9_999)]
    {
        let event = format!(r#"[{{"run_completed":{{"result":{value}}}}}]"#);
        for target in [fuzz::decode_events, fuzz::digest, fuzz::replay] {
            target(event.as_bytes());
            target(value.as_bytes());
        }
        let [recording, ..] = &recordings()[..] else { panic!("no recording") };
        fuzz::replay(
            recording.replacen("\"input\":", &format!("\"input\":{value},\"ignored\":"), 1).as_bytes(),
        );
    }
}
