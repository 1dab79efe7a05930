//! What happened, as a table.

use std::collections::BTreeMap;
use std::time::Duration;

use super::faults::{Fault, Happened};
use super::plan::Plan;

#[derive(Debug)]
pub(super) struct Figures {
    pub(super) plan: Plan,
    pub(super) took: Duration,
    pub(super) calm: Duration,
    /// Where the runs were kept.
    pub(super) home: String,
    /// The kinds of faults that can happen there.
    pub(super) kinds: Vec<Fault>,
    pub(super) faults: Vec<Happened>,
    /// What workers answered instead of doing what they were asked, and how often.
    pub(super) errors: BTreeMap<String, usize>,
    pub(super) counts: BTreeMap<&'static str, usize>,
    pub(super) violations: Vec<String>,
}

impl Figures {
    pub(super) fn count(&mut self, what: &'static str, number: usize) {
        *self.counts.entry(what).or_default() += number;
    }

    /// As [`Figures::count`], where the highest number counts.
    pub(super) fn most(&mut self, what: &'static str, number: usize) {
        let most = self.counts.entry(what).or_default();
        *most = number.max(*most);
    }

    /// How often a fault happened, and how long it took together and at most.
    fn of(&self, fault: Fault) -> (usize, Duration, Duration) {
        let times = self.faults.iter().filter(|happened| happened.fault == fault);
        let times: Vec<_> =
            times.map(|happened| Duration::from_micros(happened.until - happened.from)).collect();
        (times.len(), times.iter().sum(), times.iter().max().copied().unwrap_or_default())
    }

    /// Kinds of faults that never happened.
    pub(super) fn missing(&self) -> Vec<String> {
        let missing = self.kinds.iter().filter(|fault| self.of(**fault).0 == 0);
        missing.map(|fault| format!("{fault:?}")).collect()
    }

    pub(super) fn print(&self) {
        println!("{} processes on {}, {}:", self.plan.workers, self.home, self.plan);
        for fault in &self.kinds {
            let (times, all, most) = self.of(*fault);
            let lasted = format!("{:.1} s, at most {:.1} s", all.as_secs_f64(), most.as_secs_f64());
            println!("  {:<58} {times:>7}  {lasted}", format!("{fault:?}"));
        }
        self.counts.iter().for_each(|(what, number)| println!("  {what:<58} {number:>7}"));
        self.errors.iter().for_each(|(error, number)| println!("  answered: {error:<48} {number:>7}"));
        println!("  {:<58} {:>7.1} s", "until all had ended, once it was calm", self.calm.as_secs_f64());
        println!("  {:<58} {:>7.1} s", "duration", self.took.as_secs_f64());
        println!("  {:<58} {:>7}", "violations", self.violations.len());
        self.violations.iter().for_each(|violation| println!("violation: {violation}"));
    }
}
