//! Inputs from other inputs: a generator that needs nothing but a seed.
//!
//! Promise: one seed gives one sequence, so that what it finds is found again.

use std::path::Path;

/// Pieces that are put in place of others: names of kinds, awkward numbers, deep nests, other types.
const PIECES: [&str; 28] = [
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "4294967295",
    "18446744073709551615",
    "18446744073709551616",
    "0.1",
    "\"\"",
    "\"0:now\"",
    "\"9:send\"",
    "\"0.b0.0:x\"",
    "\"no colon\"",
    "\"\\u0000\"",
    "\"\\ud83d\\ude00\"",
    "[]",
    "{}",
    "[[[[[[]]]]]]",
    "{\"time_recorded\":{\"command\":\"0:now\",\"value\":\"2026-01-01T00:00:00Z\"}}",
    "{\"race_decided\":{\"command\":\"0:race\",\"winner\":\"0.b1\"}}",
    "{\"node_finished\":{\"command\":\"0:x\"}}",
    "{\"step_retried\":{\"command\":\"1:weigh\",\"attempt\":4294967295,\"error\":null,\"due\":\"9999-12-30T22:00:00.999999999Z\"}}",
    "{\"timer_scheduled\":{\"command\":\"0:sleep\",\"due\":\"9999-12-30T22:00:00.999999999Z\"}}",
    "{\"wait_started\":{\"command\":\"0:signal\",\"name\":\"go\"}}",
    "{\"run_completed\":{\"result\":1}}",
    "{\"moon_landed\":{}}",
    "\"9999-12-30T22:00:00.999999999Z\"",
];

/// The texts of every file below `folder` whose name ends in `.json`, to mutate.
///
/// # Panics
/// When there is none.
pub fn seeds(folder: impl AsRef<Path>) -> Vec<String> {
    let folder = folder.as_ref();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    let texts: Vec<_> = files.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    assert!(!texts.is_empty(), "there is nothing to mutate in {}", folder.display());
    texts
}

/// Makes inputs out of `seeds`, some of them with one small change, some with many.
///
/// ```
/// use aether_testing::fuzz::Mutator;
/// let make = || Mutator::new(vec!["[1,{\"a\":2}]".into()], 7).take(100).collect::<Vec<_>>();
/// assert_eq!(make(), make());
/// ```
#[derive(Clone, Debug)]
pub struct Mutator {
    seeds: Vec<String>,
    state: u64,
}

impl Mutator {
    /// A generator over `seeds`, which begins at `seed`.
    ///
    /// # Panics
    /// When there are no seeds.
    pub fn new(seeds: Vec<String>, seed: u64) -> Self {
        assert!(!seeds.is_empty(), "a mutator needs something to mutate");
        Self { seeds, state: seed }
    }

    /// The SplitMix64 generator.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.draw() % u64::try_from(end.max(1)).unwrap_or(1)).unwrap_or_default()
    }

    fn change(&mut self, text: &mut Vec<u8>) {
        let kind = self.below(10);
        let range = if kind < 7 { self.value(text) } else { self.bytes(text) };
        match kind {
            // A value is replaced, repeated, removed, or takes the place of another one.
            0 | 1 => {
                let piece = PIECES[self.below(PIECES.len())];
                text.splice(range, piece.bytes());
            }
            2 => {
                let copy = [b",", &text[range.clone()]].concat();
                text.splice(range.end..range.end, copy);
            }
            3 => {
                let end = if text.get(range.end) == Some(&b',') { range.end + 1 } else { range.end };
                text.drain(range.start..end);
            }
            4..=6 => {
                let from = self.value(text);
                let other = text[from].to_vec();
                text.splice(range, other);
            }
            // Bytes are changed, repeated, or cut off.
            7 => {
                let byte = self.draw().to_le_bytes()[0];
                if let Some(at) = text.get_mut(range.start) {
                    *at = byte;
                }
            }
            8 => {
                let copy = text[range.clone()].to_vec();
                text.splice(range.end..range.end, copy);
            }
            _ => text.truncate(range.start),
        }
    }

    /// Some bytes.
    fn bytes(&mut self, text: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(text.len());
        let end = (start + self.below(64)).min(text.len());
        start..end
    }

    /// A JSON value: begins after `[`, `,` or `:`, and reaches as far as its brackets and quotes do.
    fn value(&mut self, text: &[u8]) -> std::ops::Range<usize> {
        let somewhere = self.below(text.len());
        let begins = |at: &usize| matches!(text[*at], b'[' | b',' | b':');
        let Some(before) = (somewhere..text.len()).find(begins) else { return self.bytes(text) };
        let start = before + 1;
        let (mut depth, mut quoted, mut at) = (0_usize, false, start);
        while at < text.len() {
            match text[at] {
                b'\\' if quoted => at += 1,
                b'"' => quoted = !quoted,
                b'[' | b'{' if !quoted => depth += 1,
                b']' | b'}' | b',' if !quoted && depth == 0 => break,
                b']' | b'}' if !quoted => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        start..at.min(text.len())
    }
}

impl Iterator for Mutator {
    type Item = Vec<u8>;

    /// The next input; there is always one.
    fn next(&mut self) -> Option<Vec<u8>> {
        let seed = self.below(self.seeds.len());
        let mut text = self.seeds[seed].clone().into_bytes();
        let changes = if self.below(3) == 0 { 1 + self.below(12) } else { 1 };
        for _ in 0..changes {
            self.change(&mut text);
        }
        Some(text)
    }
}
