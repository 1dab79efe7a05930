//! From hits and slices to a report: which places promise most, which sentences say most, and how they are quoted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tree::{Hit, Hits, Slice};

/// Words searched for, places read and sentences quoted, at most.
const MAX_WORDS: usize = 6;
const MAX_PLACES: usize = 5;
const MAX_SENTENCES: usize = 4;
/// Files named for further reading, at most.
const MAX_FURTHER: usize = 8;
/// Hits this many lines apart or less support each other.
const NEAR: usize = 8;

/// Words that say nothing about a subject.
const FILLERS: &str = " a about after all also an and any are as at be been before but by can could did do does for from \
    get had has have how if in into is it its just kind made make makes many may more most much must never no not of on \
    once one only or other our out over own project program code repository should so some such sure than that the their \
    them then there these they this those through to too under up use used uses using very was way we were what when \
    where which while who why will with without would you your ";

/// The words of a question that are worth a search, in lower case and in the singular.
pub(super) fn words(question: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in question.split(|c: char| !c.is_alphanumeric() && c != '_') {
        let word = word.to_lowercase();
        let word = singular(&word);
        let filler = FILLERS.contains(&format!(" {word} "));
        if word.len() > 2 && !filler && words.len() < MAX_WORDS && !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    if words.is_empty() {
        words.push(question.trim().to_owned());
    }
    words
}

fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 3 && !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    }
}

/// A headline for the answer to `question`.
pub(super) fn title(question: &str) -> String {
    let mut title: String = question.chars().take(100).collect();
    if title.len() < question.len() {
        title.push('…');
    }
    title.replace('\n', " ")
}

/// What the searches and readings brought.
pub(super) struct Evidence<'q> {
    question: &'q str,
    searches: Vec<Hits>,
    /// The best hit of each of the best files, best first.
    pub(super) places: Vec<Hit>,
    /// What was read there.
    pub(super) slices: Vec<Slice>,
}

/// A sentence of a comment or a document.
struct Sentence {
    place: String,
    text: String,
    score: f64,
}

impl<'q> Evidence<'q> {
    /// What `searches` brought.
    pub(super) fn of(question: &'q str, mut searches: Vec<Hits>) -> Self {
        // Where the question itself is written down, it is not answered.
        searches.iter_mut().for_each(|search| search.hits.retain(|hit| !hit.text.contains(question)));
        let mut evidence = Self { question, searches, places: Vec::new(), slices: Vec::new() };
        evidence.places = evidence.best_places();
        evidence
    }

    /// How much `text` has of the question: rare words count more.
    fn score(&self, text: &str) -> f64 {
        let text = text.to_lowercase();
        let found = self.searches.iter().filter(|s| s.files > 0 && text.contains(&s.text.to_lowercase()));
        found.map(|s| 1.0 / (2.0 + s.files as f64).ln()).sum()
    }

    fn best_places(&self) -> Vec<Hit> {
        let mut by_file: BTreeMap<&str, Vec<&Hit>> = BTreeMap::new();
        for hit in self.searches.iter().flat_map(|search| &search.hits) {
            by_file.entry(&hit.path).or_default().push(hit);
        }
        let best = by_file.into_values().filter_map(|hits| {
            let scored = hits.iter().map(|hit| (self.score_around(hit, &hits), *hit));
            // `max_by` keeps the last of equals; reversed, that is the first line.
            scored.rev().max_by(|a, b| a.0.total_cmp(&b.0))
        });
        let mut best: Vec<(f64, &Hit)> = best.collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.into_iter().take(MAX_PLACES).map(|(_, hit)| hit.clone()).collect()
    }

    /// A hit with other words of the question nearby, in prose, in a source or a document, promises more.
    fn score_around(&self, hit: &Hit, others: &[&Hit]) -> f64 {
        let near = others.iter().filter(|other| other.line.abs_diff(hit.line) <= NEAR);
        let around: String = near.map(|other| format!("{} ", other.text)).collect();
        let prose = match prose(&hit.path, &hit.text) {
            Some(_) if hit.text.starts_with("//!") || hit.path.ends_with(".md") => 2.0,
            Some(_) => 1.5,
            None => 1.0,
        };
        let source = if hit.path.ends_with(".rs") || hit.path.ends_with(".md") { 1.0 } else { 0.5 };
        (self.score(&hit.text) + self.score(&around)) * prose * source
    }

    fn sentences(&self) -> Vec<Sentence> {
        let mut sentences: Vec<Sentence> = Vec::new();
        for (place, text) in self.slices.iter().flat_map(sentences_of) {
            let score = self.score(&text);
            let long_enough = text.split_whitespace().count() > 4;
            if score > 0.0 && long_enough && !sentences.iter().any(|known| known.text == text) {
                sentences.push(Sentence { place, text, score });
            }
        }
        sentences.sort_by(|a, b| b.score.total_cmp(&a.score));
        let least = sentences.first().map_or(0.0, |best| best.score / 2.0);
        sentences.retain(|sentence| sentence.score > least);
        sentences.truncate(MAX_SENTENCES);
        sentences
    }

    /// The sentence that says most, with its place.
    pub(super) fn best(&self) -> Option<String> {
        let sentence = self.sentences().into_iter().next();
        let quoted = sentence.map(|sentence| format!("“{}” ({})", sentence.text, sentence.place));
        quoted.or_else(|| self.places.first().map(|place| format!("Look at {}:{}.", place.path, place.line)))
    }

    /// The report in Markdown.
    pub(super) fn report(&self) -> String {
        let mut report = format!("**Question.** {}\n", self.question);
        if self.places.is_empty() {
            report.push_str("\n**Nothing in the tree has the words of the question.**\n");
        }
        self.push_short(&mut report);
        self.push_slices(&mut report);
        self.push_further(&mut report);
        self.push_method(&mut report);
        report
    }

    fn push_short(&self, report: &mut String) {
        let sentences = self.sentences();
        if !sentences.is_empty() {
            report.push_str("\n## What the tree says\n\n");
        }
        for Sentence { place, text, .. } in sentences {
            let _infallible = writeln!(report, "- {text} (`{place}`)");
        }
    }

    fn push_slices(&self, report: &mut String) {
        if !self.slices.is_empty() {
            report.push_str("\n## Evidence\n");
        }
        for slice in &self.slices {
            let last = slice.first + slice.lines.len().saturating_sub(1);
            let _infallible = writeln!(report, "\n`{}:{}-{last}`\n\n````text", slice.path, slice.first);
            for (line, number) in slice.lines.iter().zip(slice.first..) {
                let _infallible = writeln!(report, "{number:>5}  {line}");
            }
            report.push_str("````\n");
        }
    }

    fn push_further(&self, report: &mut String) {
        let read: Vec<&str> = self.places.iter().map(|place| place.path.as_str()).collect();
        let mut further: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for search in &self.searches {
            for hit in search.hits.iter().filter(|hit| !read.contains(&hit.path.as_str())) {
                let words = further.entry(&hit.path).or_default();
                if !words.contains(&search.text.as_str()) {
                    words.push(&search.text);
                }
            }
        }
        let mut further: Vec<_> = further.into_iter().collect();
        further.sort_by_key(|(_, words)| std::cmp::Reverse(words.len()));
        if !further.is_empty() {
            report.push_str("\n## Where else to look\n\n");
        }
        for (path, words) in further.into_iter().take(MAX_FURTHER) {
            let _infallible = writeln!(report, "- `{path}`: {}", words.join(", "));
        }
    }

    fn push_method(&self, report: &mut String) {
        report.push_str("\n## How this was found\n\n| searched for | lines | files |\n|---|---:|---:|\n");
        for search in &self.searches {
            let _infallible = writeln!(report, "| {} | {} | {} |", search.text, search.lines, search.files);
        }
        report.push_str(
            "\nWritten by the bundled offline model, which searches, ranks and quotes, and understands nothing. \
             The quotations are real; the conclusion is yours.\n",
        );
    }
}

/// The sentences of the prose in a slice, each with the place where it starts.
fn sentences_of(slice: &Slice) -> Vec<(String, String)> {
    let mut sentences = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (line, number) in slice.lines.iter().zip(slice.first..) {
        let Some(prose) = prose(&slice.path, line).filter(|prose| !prose.is_empty()) else {
            open = None;
            continue;
        };
        for part in prose.split_inclusive(". ") {
            let (_, text) = open.get_or_insert_with(|| (number, String::new()));
            if !text.is_empty() && !text.ends_with(' ') {
                text.push(' ');
            }
            text.push_str(part);
            if part.trim_end().ends_with(['.', '!', '?'])
                && let Some((start, text)) = open.take()
            {
                sentences.push((format!("{}:{start}", slice.path), text.trim().to_owned()));
            }
        }
    }
    // What the slice cuts off at its start is not a whole sentence.
    sentences.retain(|(_, text)| text.starts_with(|c: char| c.is_uppercase() || "`*".contains(c)));
    sentences
}

/// The prose of a line: of a comment, or of a document.
fn prose<'l>(path: &str, line: &'l str) -> Option<&'l str> {
    let line = line.trim();
    let comment = ["//!", "///", "//"].into_iter().find_map(|mark| line.strip_prefix(mark));
    let document = || {
        let text = path.ends_with(".md") && !line.starts_with(['|', '`', '#', '<']);
        text.then(|| line.trim_start_matches(['-', '*', '>', ' ']))
    };
    comment.or_else(document).map(str::trim)
}
