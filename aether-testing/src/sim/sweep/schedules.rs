//! Many schedules of one workflow, drawn from seeds, and what they must have in common.
//!
//! Promise: each schedule depends on its seed and the plain simulation alone, so that the line which a failure prints gives
//! it again, whatever ran before it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aether_core::payload::Payload;
use aether_core::workflow::Workflow;

use super::guarantees::undisturbed;
use super::message_rules::messages_count;
use super::quiet::{caught, quietly};
use super::schedule_failure::{Named, ONLY, ScheduleFailure, in_words, only_schedules};
use super::schedule_rules::{First, failure, keeps_rules, way};
use super::shrink::shrink;
use crate::sim::processes::simulate::{Simulated, simulate};
use crate::sim::report::error::SimError;
use crate::sim::report::sim_report::SimReport;
use crate::sim::schedule::draw::plan_of;
use crate::sim::schedule::pace::{Digest, Pace, PaceRecord};
use crate::sim::schedule::plan::Plan;
use crate::sim::settings::Settings;

/// How much longer than the plain simulation and all that it holds a schedule may take; each message adds as much.
const SLACK: Duration = Duration::from_secs(24 * 3600);

/// How many lines show what a run without an end came to.
const LAST: usize = 20;

/// What a test asserts about each schedule.
pub(crate) type Check<W> = Arc<dyn Fn(&SimReport<W>) + Send + Sync>;

/// What is asked of schedules beyond the rules that hold for all.
pub(crate) struct Asked<W: Workflow> {
    pub(crate) results_may_differ: bool,
    pub(crate) signals_may_be_left: bool,
    pub(crate) check: Option<Check<W>>,
}

impl<W: Workflow> Clone for Asked<W> {
    fn clone(&self) -> Self {
        let Self { results_may_differ, signals_may_be_left, check } = self;
        Self {
            results_may_differ: *results_may_differ,
            signals_may_be_left: *signals_may_be_left,
            check: check.clone(),
        }
    }
}

/// How many schedules were tried, and what they were like.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScheduleReport {
    /// Number of schedules, without the plain simulation that came first.
    pub schedules: usize,
    /// Number of different journals: other commands, or the same in another order.
    pub journals: usize,
    /// Number of different ways in which races, waits and cancels came out. Results are compared within each.
    pub outcomes: usize,
    /// How often a process died.
    pub crashes: usize,
    /// How often a process was shut down.
    pub shutdowns: usize,
    /// Signals, decisions and answers that were acknowledged to those who sent them.
    pub messages: usize,
    /// The longest virtual time of a run.
    pub longest: Duration,
    /// A digest of everything that happened, in order. It is the same each time, as long as neither workflow nor library
    /// change.
    pub fingerprint: u64,
    /// How long it took, in real time.
    pub took: Duration,
}

impl fmt::Display for ScheduleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedules, journals, outcomes, crashes, shutdowns, messages, longest, took, .. } = self;
        let each_second = *schedules as f64 / took.as_secs_f64().max(0.001);
        write!(
            f,
            "{schedules} schedules ({each_second:.0}/s): {journals} journals, {outcomes} outcomes of races and waits, \
             {crashes} crashes, {shutdowns} shutdowns, {messages} messages, at most {longest:?} of virtual time"
        )
    }
}

/// One schedule, as it went.
struct Tried<W: Workflow> {
    run: Option<Simulated<W>>,
    record: PaceRecord,
    failure: Option<ScheduleFailure>,
}

/// Everything that schedules are held against.
struct Search<'a, W: Workflow> {
    settings: Settings,
    input: &'a Payload,
    asked: Asked<W>,
    test: String,
    reference: Simulated<W>,
    survey: PaceRecord,
    /// The first run of each way in which races, waits and cancels came out; `None` for the plain simulation.
    firsts: BTreeMap<String, (Option<Named>, First<W>)>,
    journals: BTreeSet<u64>,
    report: ScheduleReport,
    digest: Digest,
}

/// Tries `n` schedules, or those that the environment names.
pub(crate) fn in_schedules<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    n: usize,
    asked: Asked<W>,
    test: String,
) -> Result<ScheduleReport, SimError> {
    let only = only_schedules()?;
    let begun = Instant::now();
    let mut search = Search::new(settings.for_sweep(), input, asked, test)?;
    match only {
        Some(named) => {
            for named in named {
                search.show(&named);
                search.take(named)?;
            }
        }
        None => {
            for seed in (settings.seed..).take(n) {
                search.take(Named { seed, plan: None })?;
            }
        }
    }
    let (journals, outcomes) = (search.journals.len(), search.firsts.len());
    let fingerprint = search.digest.0;
    Ok(ScheduleReport { journals, outcomes, fingerprint, took: begun.elapsed(), ..search.report })
}

impl<'a, W: Workflow> Search<'a, W> {
    fn new(settings: Settings, input: &'a Payload, asked: Asked<W>, test: String) -> Result<Self, SimError> {
        let pace = Arc::new(Pace::new(Plan::default(), settings.at, false));
        let plain = Settings { pace: Some(Arc::clone(&pace)), ..settings.clone() };
        let reference = simulate::<W>(&plain, input)?;
        let mut survey = pace.record();
        survey.survey.limit = reference.report.log.iter().filter_map(|call| call.options.timeout).min();
        let mut search = Self {
            settings,
            input,
            asked,
            test,
            survey,
            firsts: BTreeMap::new(),
            journals: BTreeSet::new(),
            report: ScheduleReport::default(),
            digest: Digest::default(),
            reference,
        };
        // Once more, with the limits of a schedule: the first run is what all others are held against.
        let pace = Arc::new(Pace::new(Plan::default(), search.settings.at, false));
        let plain = simulate::<W>(&search.of(&Plan::default(), &pace), input)?;
        let broken =
            undisturbed(&plain).err().or_else(|| search.checked(&plain).err().map(|(_, broken)| broken));
        if let Some(broken) = broken {
            let (reproduce, journal) = (format!("cargo test {}", search.test), plain.report.journal());
            return Err(SimError::Undisturbed { broken, reproduce, journal });
        }
        search.firsts.insert(way(&plain.report), (None, First::of(plain)));
        Ok(search)
    }

    fn plan(&self, named: &Named) -> Plan {
        named.plan.clone().unwrap_or_else(|| plan_of(named.seed, &self.survey.survey))
    }

    /// The settings of one schedule. Draws of workflow code are those of the plain simulation.
    fn of(&self, plan: &Plan, pace: &Arc<Pace>) -> Settings {
        let draws = self.settings.draws.as_ref().map(|draws| {
            let drawn = draws.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Arc::new(Mutex::new(drawn))
        });
        let messages: u32 = self.survey.survey.messages.iter().sum();
        let slack = SLACK.saturating_mul(messages.saturating_add(2));
        let usual = self.reference.report.slept.saturating_mul(2);
        let within = usual
            .saturating_add(plan.held())
            .saturating_add(plan.late())
            .saturating_add(slack)
            .min(self.settings.within);
        Settings { pace: Some(Arc::clone(pace)), draws, within, ..self.settings.clone() }
    }

    fn attempt(&self, plan: &Plan, told: bool) -> Tried<W> {
        let pace = Arc::new(Pace::new(plan.clone(), self.settings.at, told));
        let run = simulate::<W>(&self.of(plan, &pace), self.input);
        let record = pace.record();
        match run {
            Err(error) => {
                let rule = if matches!(error, SimError::Unfinished { .. }) { "stuck" } else { "simulation" };
                let last = record.story.len().saturating_sub(LAST);
                let journal = format!(
                    "  (it has no end; the last that happened:)\n{}",
                    record.story.get(last..).unwrap_or_default().join("\n")
                );
                let failure = ScheduleFailure { rule, broken: error.to_string(), journal };
                Tried { run: None, record, failure: Some(failure) }
            }
            Ok(run) => {
                let broken = self.judged(&run, &record, plan).err();
                let failure = broken.map(|broken| failure(broken, &run));
                Tried { run: Some(run), record, failure }
            }
        }
    }

    fn judged(
        &self,
        run: &Simulated<W>,
        record: &PaceRecord,
        plan: &Plan,
    ) -> Result<(), (&'static str, String)> {
        keeps_rules(&self.reference, run, plan.held())?;
        messages_count(run, record, self.asked.signals_may_be_left)?;
        self.checked(run)?;
        if self.asked.results_may_differ {
            return Ok(());
        }
        let first = self.firsts.get(&way(&run.report));
        match first.and_then(|(_, first)| first.difference(run)) {
            Some(difference) => Err(("results", difference)),
            None => Ok(()),
        }
    }

    /// What the test asserts.
    fn checked(&self, run: &Simulated<W>) -> Result<(), (&'static str, String)> {
        let Some(check) = &self.asked.check else { return Ok(()) };
        caught(|| check(&run.report)).map_err(|message| ("check", message))
    }

    /// Tries a schedule, and counts it.
    fn take(&mut self, named: Named) -> Result<(), SimError> {
        let plan = self.plan(&named);
        let Tried { run, record, failure } = self.attempt(&plan, false);
        if let Some(failure) = failure {
            return Err(self.failed(&named, plan, run, failure));
        }
        let Some(run) = run else { return Ok(()) };
        self.count(&run, &record);
        self.firsts.entry(way(&run.report)).or_insert_with(|| (Some(named), First::of(run)));
        Ok(())
    }

    fn count(&mut self, run: &Simulated<W>, record: &PaceRecord) {
        let journal = run.report.journal();
        self.digest.add(&record.digest.0.to_le_bytes());
        self.digest.add(journal.as_bytes());
        let mut order = Digest::default();
        for event in &run.report.events {
            order.add(event.kind().as_bytes());
            order.add(event.command().map_or("", |command| command.as_str()).as_bytes());
        }
        self.journals.insert(order.0);
        let report = &mut self.report;
        report.schedules += 1;
        report.crashes += run.report.crashes;
        report.shutdowns += record.shutdowns;
        report.messages += record.acknowledged.len();
        report.longest = report.longest.max(run.report.slept);
    }

    /// Makes a failing schedule small, and says how to see it again.
    fn failed(
        &self,
        named: &Named,
        plan: Plan,
        run: Option<Simulated<W>>,
        failure: ScheduleFailure,
    ) -> SimError {
        let rule = failure.rule;
        let breaks = |plan: &Plan| self.attempt(plan, false).failure.is_some_and(|found| found.rule == rule);
        let plan = quietly(|| shrink(plan, breaks));
        let told = quietly(|| self.attempt(&plan, true));
        let failure = told.failure.unwrap_or(failure);
        let small = Named { seed: named.seed, plan: Some(plan) };
        let mut words = in_words(small.plan.as_ref().unwrap_or(&Plan::default()), &told.record.told);
        let mut line = small.to_string();
        if rule == "results"
            && let Some(run) = told.run.or(run)
            && let Some((Some(other), _)) = self.firsts.get(&way(&run.report))
        {
            let (other, others_words) = self.small_other(other, &run);
            line = format!("{other}/{line}");
            words = format!("{words}  and in another one:\n{others_words}");
        }
        let reproduce = format!("{ONLY}={line} cargo test {}", self.test);
        SimError::Schedule { broken: failure.broken, choices: words, reproduce, journal: failure.journal }
    }

    /// The schedule that the failing one is compared with, made small, too.
    fn small_other(&self, other: &Named, run: &Simulated<W>) -> (Named, String) {
        let differs = |plan: &Plan| {
            let found = self.attempt(plan, false).run;
            found.is_some_and(|found| {
                way(&found.report) == way(&run.report) && First::of(found).difference(run).is_some()
            })
        };
        let plan = quietly(|| shrink(self.plan(other), differs));
        let words = in_words(&plan, &quietly(|| self.attempt(&plan, true)).record.told);
        (Named { seed: other.seed, plan: Some(plan) }, words)
    }

    /// Prints what happens in a schedule, point by point.
    fn show(&self, named: &Named) {
        let Tried { run, record, .. } = quietly(|| self.attempt(&self.plan(named), true));
        println!("{ONLY}={named}:\n{}", in_words(&self.plan(named), &record.told));
        println!("{}", record.lines.join("\n"));
        if let Some(run) = run {
            println!("\n{}\nended: {:?}", run.report.journal(), run.report.view.status);
        }
    }
}
