//! Assertions about a simulated run: each fails at the line that makes it, and shows what was found.

use std::fmt::{Debug, Write as _};
use std::time::Duration;

use aether_core::contract::Status;
use aether_core::engine::RunError;
use aether_core::step::Step;
use aether_core::workflow::Workflow;

use super::difference::difference;
use super::sim_report::SimReport;

/// Longest line of a difference, in characters.
const WIDTH: usize = 100;

impl<W: Workflow> SimReport<W> {
    /// Asserts that the run ended with a value, and returns it.
    ///
    /// # Panics
    /// When it did not; shows the error and the journal.
    #[track_caller]
    pub fn assert_completed(&self) -> &W::Output {
        match &self.result {
            Ok(value) => value,
            Err(error) => panic!("the run did not complete: {error}\njournal:\n{}", self.journal()),
        }
    }

    /// Asserts that the run did not end with a value, and returns why.
    ///
    /// # Panics
    /// When it did; shows the journal.
    #[track_caller]
    pub fn assert_failed(&self) -> &RunError<W::Error> {
        match &self.result {
            Err(error) => error,
            Ok(_) => panic!("the run completed with {:?}\njournal:\n{}", self.view.result, self.journal()),
        }
    }

    /// Asserts the status of the run, for example that it is paused.
    ///
    /// # Panics
    /// When it has another status; shows the journal that led there.
    #[track_caller]
    pub fn assert_status(&self, expected: Status) {
        let found = self.view.status;
        assert!(found == expected, "the run is {found}, not {expected}\njournal:\n{}", self.journal());
    }

    /// Asserts that the recorded effects have these names, in this order: steps, and draws such as `now`.
    ///
    /// # Panics
    /// When they have not; shows the difference.
    #[track_caller]
    pub fn assert_effects(&self, expected: &[&str]) {
        let found: Vec<&str> = self.view.effects.iter().map(|effect| effect.command.name()).collect();
        if found != expected {
            panic!("{}", differing("the run has other effects", expected, &found));
        }
    }

    /// Asserts how often the body of `S` was called.
    ///
    /// # Panics
    /// When it was called more or less often; lists the calls.
    #[track_caller]
    pub fn assert_calls<S: Step>(&self, expected: usize) {
        let found = self.log_of::<S>().count();
        if found != expected {
            let mut text = format!("`{}` was called {found} times, not {expected}:\n", S::DEF.name);
            for call in self.log_of::<S>() {
                let _writing_to_a_string =
                    writeln!(text, "  {} attempt {} with {:?}", call.command, call.attempt, call.args);
            }
            panic!("{text}");
        }
    }

    /// Asserts with which arguments the body of `S` was called, in order.
    ///
    /// # Panics
    /// When it was called with others, or in another order; shows the difference.
    #[track_caller]
    pub fn assert_called_with<S: Step>(&self, expected: &[S::Args])
    where
        S::Args: Debug + PartialEq,
    {
        let found = self.calls::<S>();
        if found != expected {
            let lines = |calls: &[S::Args]| calls.iter().map(|args| format!("{args:?}")).collect::<Vec<_>>();
            let (expected, found) = (lines(expected), lines(&found));
            let what = format!("`{}` was called otherwise", S::DEF.name);
            panic!("{}", differing(&what, &borrowed(&expected), &borrowed(&found)));
        }
    }

    /// Asserts how many calls of `S` are in doubt at the end: begun, and it is not known whether they happened.
    ///
    /// # Panics
    /// When there are more or fewer; shows them and the journal.
    #[track_caller]
    pub fn assert_in_doubt<S: Step>(&self, expected: usize) {
        let doubts = self.view.in_doubt();
        let found: Vec<_> = doubts.iter().filter(|step| step.command.name() == S::DEF.name).collect();
        if found.len() != expected {
            let commands: Vec<_> = found.iter().map(|step| step.command.as_str()).collect();
            let (name, count) = (S::DEF.name, found.len());
            panic!(
                "{count} calls of `{name}` are in doubt, not {expected}: {commands:?}\njournal:\n{}",
                self.journal()
            );
        }
    }

    /// Asserts that at least this much virtual time passed, and less than twice as much.
    ///
    /// # Panics
    /// When more or less time passed.
    #[track_caller]
    pub fn assert_took(&self, about: Duration) {
        let found = self.slept;
        assert!(
            found >= about && found < about.saturating_mul(2),
            "the run took {found:?} of virtual time, not about {about:?}\njournal:\n{}",
            self.journal()
        );
    }

    /// Asserts the journal, one line an event: each expected line is the beginning of the journal's own, as
    /// [`SimReport::journal`] has it, without the number. So `node_started 0:search` stands for that event with
    /// whatever else it holds. Space around lines and empty lines do not count.
    ///
    /// # Panics
    /// When it is another; shows the difference, and the whole journal to copy from.
    #[track_caller]
    pub fn assert_journal(&self, expected: &str) {
        let journal = self.journal();
        let found: Vec<&str> = journal.lines().map(unnumbered).collect();
        let expected: Vec<&str> =
            expected.lines().map(str::trim).filter(|line| !line.is_empty()).map(unnumbered).collect();
        let fits = |(expected, found): (&&str, &&str)| begins(found, expected);
        if found.len() == expected.len() && expected.iter().zip(&found).all(fits) {
            return;
        }
        // Lines that fit are shown as the test has them, others by their beginning.
        let shown = |found: &&'_ str| match expected.iter().find(|expected| begins(found, expected)) {
            Some(expected) => (*expected).to_owned(),
            None => shortened(found),
        };
        let shown: Vec<String> = found.iter().map(shown).collect();
        panic!(
            "{}the journal:\n{journal}",
            differing("the journal is another", &expected, &borrowed(&shown))
        );
    }
}

/// A line of a journal without its number.
fn unnumbered(line: &str) -> &str {
    let line = line.trim();
    line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start()
}

/// Whether `line` begins with `start`, up to the end of a word.
fn begins(line: &str, start: &str) -> bool {
    line.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// The beginning of a line.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{} ..", line.get(..end).unwrap_or(line)),
        None => line.to_owned(),
    }
}

fn borrowed(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

fn differing(what: &str, expected: &[&str], found: &[&str]) -> String {
    let mut text = format!("{what} (- expected, + found):\n");
    for (sign, line) in difference(expected, found) {
        let _writing_to_a_string = writeln!(text, "  {sign} {line}");
    }
    text
}
