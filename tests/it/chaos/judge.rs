//! The verdict: what the store holds, what the tools wrote, what workers answered and what the driver did must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aether::id::RunId;
use aether::prelude::Engine;
use aether::store::event::{Event, InvocationDecision};
use aether::store::{RunFilter, Store};

use super::driver::{Answer, Driver};
use super::faults::{Fault, Happened};
use super::figures::Figures;
use super::flows::{Flow, Policy};
use super::home::Messages;
use super::world::{Deed, Line, World};
use crate::crash::lives::{Keeping, journal, runtime};

/// Microseconds in which a run whose owner works has noticed what another process sent to it.
const NOTICED: u64 = 1_000_000;

/// Microseconds in which what a call returned is written, on a machine that has little time for it.
const WRITTEN: u64 = 10_000_000;

/// How many runs are replayed.
const REPLAYED: usize = 300;

/// Reads everything, and says what is wrong.
pub(super) fn judge(driver: &mut Driver) -> Figures {
    let lines = World::in_folder(driver.folder.path()).lines();
    let figures = Figures {
        plan: driver.plan.clone(),
        took: Default::default(),
        calm: driver.calm,
        home: driver.home.to_string(),
        kinds: driver.kinds(),
        faults: driver.faults.clone(),
        errors: std::mem::take(&mut driver.errors),
        counts: BTreeMap::new(),
        violations: std::mem::take(&mut driver.violations),
    };
    let (messages, sees_paused) = (driver.home.messages(), driver.home.sees_paused());
    let mut judge = Judge { figures, calls: calls(&lines), lines, messages, sees_paused };
    judge.figures.count("runs started by the driver", driver.runs());
    judge.after_shutdowns();
    judge.complaints(&std::fs::read_to_string(driver.complaints()).unwrap_or_default());
    runtime(Keeping::Sqlite).block_on(judge.all(driver));
    judge.figures
}

/// The calls of one key, in the order of their lines.
fn calls(lines: &[Line]) -> BTreeMap<String, Vec<Line>> {
    let mut calls: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.policy.is_some()) {
        calls.entry(line.key.clone()).or_default().push(line.clone());
    }
    calls
}

struct Judge {
    figures: Figures,
    lines: Vec<Line>,
    calls: BTreeMap<String, Vec<Line>>,
    messages: Messages,
    /// Whether the store can tell that a paused process is there.
    sees_paused: bool,
}

/// What every run is started with.
#[derive(serde::Deserialize)]
struct Input {
    n: u32,
}

/// One run, and what is known of it.
struct Case<'a> {
    run: String,
    flow: Flow,
    n: u32,
    events: &'a [Event],
    answers: Vec<&'a Answer>,
    is_cancelled: bool,
}

impl Case<'_> {
    /// Whether the decision at a place of the journal is about an invocation.
    fn is_about(&self, decided: usize, invocation: &str) -> bool {
        matches!(&self.events[decided], Event::InvocationResolved(e) if e.invocation.as_str() == invocation)
    }

    /// How many decisions came before that at a place of the journal about the same call, and whether another owner took the
    /// run over since the last of them, or since the intent.
    fn before(&self, decided: usize) -> (usize, bool) {
        let (mut earlier, mut is_taken_over) = (0, false);
        for event in &self.events[..decided] {
            match event {
                Event::ToolInvocationStarted(e) if self.is_about(decided, e.invocation.as_str()) => {
                    is_taken_over = false;
                }
                Event::InvocationResolved(e) if self.is_about(decided, e.invocation.as_str()) => {
                    (earlier, is_taken_over) = (earlier + 1, false);
                }
                Event::RunRequeued(_) => is_taken_over = true,
                _ => {}
            }
        }
        (earlier, is_taken_over)
    }

    /// How often it was decided to call again under the same key.
    fn retries(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        let again = self.events.iter().filter(|event| match event {
            Event::InvocationResolved(e) => {
                e.decision == InvocationDecision::Retry && is_meant(e.invocation.as_str())
            }
            _ => false,
        });
        again.count()
    }
}

impl Judge {
    fn wrong(&mut self, case: &Case<'_>, what: &str) {
        let events: Vec<_> = case.events.iter().enumerate().map(|(at, event)| line_of(at, event)).collect();
        let about = format!("aether:{}", case.run);
        let of_run = |key: &str| key.strip_prefix(&about).is_some_and(|rest| rest.starts_with(':'));
        let calls: Vec<_> =
            self.lines.iter().filter(|line| of_run(&line.key)).map(|line| format!("    {line:?}")).collect();
        let (first, last) = (calls_at(&self.lines, of_run), self.figures.faults.iter());
        let faults: Vec<_> = last
            .filter(|fault| {
                first.is_some_and(|(from, until)| {
                    fault.until + 5_000_000 >= from && fault.from <= until + 5_000_000
                })
            })
            .map(|fault| format!("    {fault:?}"))
            .collect();
        let answers = case
            .answers
            .iter()
            .map(|answer| format!("    {} {}: {}", answer.at, answer.order, answer.answer));
        let answers: Vec<_> = answers.collect();
        self.figures.violations.push(format!(
            "{} ({:?} {}): {what}; seed {}\n{}\n  calls:\n{}\n  faults:\n{}\n  answers:\n{}\n  messages:\n    {:?}",
            case.run,
            case.flow,
            case.n,
            self.figures.plan.seed,
            events.join("\n"),
            calls.join("\n"),
            faults.join("\n"),
            answers.join("\n"),
            self.messages.iter().filter(|((run, _), _)| *run == case.run).collect::<Vec<_>>(),
        ));
    }

    /// After a shutdown has returned, nothing of its process is done.
    fn after_shutdowns(&mut self) {
        let (mut shut, mut stopping, mut longest) = (BTreeSet::new(), BTreeMap::new(), 0);
        let mut late = Vec::new();
        for line in &self.lines {
            match line.deed {
                Deed::Stopping => drop(stopping.insert(line.pid, line.at)),
                Deed::Shut => {
                    shut.insert(line.pid);
                    longest = longest.max(line.at - stopping[&line.pid]);
                }
                Deed::Begin | Deed::Change | Deed::End | Deed::Drop if shut.contains(&line.pid) => {
                    late.push(format!("{line:?}"))
                }
                _ => {}
            }
        }
        self.figures.count("shutdowns that returned", shut.len());
        self.figures.count("longest shutdown, in ms", usize::try_from(longest / 1_000).unwrap());
        self.figures.count("calls after a shutdown had returned", late.len());
        self.figures.violations.extend(late.into_iter().map(|line| format!("after its shutdown: {line}")));
    }

    /// Panics of the workers.
    fn complaints(&mut self, text: &str) {
        let panics = text.lines().filter(|line| line.contains("panicked"));
        self.figures.violations.extend(panics.map(|line| format!("a worker said: {line}")));
    }

    async fn all(&mut self, driver: &Driver) {
        if let Some(damage) = driver.home.damage() {
            self.figures.violations.push(format!("what the runs are kept in is damaged: {damage}"));
        }
        let store = driver.home.store();
        let mut known = BTreeSet::new();
        for record in store.runs(RunFilter::default()).await.unwrap() {
            known.insert(record.id.to_string());
            match journal(&*store, &record.id).await {
                Ok(events) => self.run(driver, &*store, &record.id, &events).await,
                Err(error) => self.figures.violations.push(error),
            }
        }
        self.replay(store, &known).await;
        for Answer { order, .. } in driver.answers.iter().filter(|answer| answer.order.starts_with("start "))
        {
            if !known.contains(order.split(' ').nth(2).unwrap()) {
                self.figures.violations.push(format!("an acknowledged run is lost: {order}"));
            }
        }
    }

    /// Replays some of the runs, which calls nothing.
    async fn replay(&mut self, store: Arc<dyn Store>, known: &BTreeSet<String>) {
        let engine = Engine::builder().store(store).start().await.unwrap();
        for run in known.iter().take(REPLAYED) {
            self.figures.count("runs replayed", 1);
            if let Err(error) = engine.verify(&RunId::new(run.as_str()).unwrap()).await {
                self.figures.violations.push(format!("{run} does not replay: {error}"));
            }
        }
    }

    async fn run(&mut self, driver: &Driver, store: &dyn Store, id: &RunId, events: &[Event]) {
        let Some(Event::RunCreated(created)) = events.first() else {
            return self.figures.violations.push(format!("the journal of {id} has no beginning: {events:?}"));
        };
        let run = id.to_string();
        let sent = |answer: &&Answer| answer.order.split(' ').nth(1) == Some(&run);
        let case = Case {
            flow: Flow::named(&created.workflow).unwrap(),
            n: created.input.decode::<Input>().unwrap().n,
            events,
            answers: driver.answers.iter().filter(sent).collect(),
            is_cancelled: matches!(events.last(), Some(Event::RunCancelled(_))),
            run,
        };
        self.figures.count(
            "takeovers of a run",
            events.iter().filter(|e| matches!(e, Event::RunRequeued(_))).count(),
        );
        let is_step = |event: &&Event| matches!(event, Event::NodeStarted(_));
        self.figures.count("steps of all runs", events.iter().filter(is_step).count());
        self.end(&case, driver);
        self.mail(&case);
        self.decisions(&case, driver);
        self.ledger(&case, store, id).await;
        self.effects(&case);
    }

    /// How the run ended, and with what.
    fn end(&mut self, case: &Case<'_>, driver: &Driver) {
        match case.events.last() {
            Some(Event::RunCompleted(e)) => {
                self.figures.count("runs completed", 1);
                self.not_cancelled(case);
                let (words, expected) = (e.result.decode::<Vec<String>>().unwrap(), case.flow.words(case.n));
                let fits = |(word, expected): (&String, &String)| {
                    let doubt =
                        word.strip_suffix(" ?").is_some_and(|name| expected.starts_with(&format!("{name} ")));
                    doubt || expected.split('|').any(|expected| expected == word)
                };
                if words.len() != expected.len() || !words.iter().zip(&expected).all(fits) {
                    self.wrong(case, &format!("it returned {words:?} and not {expected:?}"));
                }
            }
            Some(Event::RunCancelled(_)) => {
                self.figures.count("runs cancelled", 1);
                self.late_calls(case);
                let parent = case.run.split('/').next().unwrap();
                let asked = driver.answers.iter().any(|a| a.order == format!("cancel {parent}"));
                if !asked {
                    self.wrong(case, "it was cancelled, and nobody asked for that");
                }
            }
            other => {
                let last = format!("it did not end well: {other:?}");
                self.wrong(case, &last);
            }
        }
    }

    /// A run that completes was not asked to end before.
    fn not_cancelled(&mut self, case: &Case<'_>) {
        if case.answers.iter().any(|answer| answer.order.starts_with("cancel ") && answer.answer == "ok") {
            self.wrong(case, "it completed behind an acknowledged cancellation");
        }
    }

    /// Calls that began when the request to end had been there for a while: its owner was paused, or looked late.
    fn late_calls(&mut self, case: &Case<'_>) {
        let asked = |answer: &&&Answer| answer.order.starts_with("cancel ") && answer.answer == "ok";
        let Some(asked) = case.answers.iter().find(asked).map(|answer| answer.at) else { return };
        let prefix = format!("aether:{}:", case.run);
        let late = |line: &&Line| {
            line.deed == Deed::Begin && line.at > asked + NOTICED && line.key.starts_with(&prefix)
        };
        let late = self.lines.iter().filter(late).count();
        self.figures.count("calls begun over 1 s after an acknowledged cancellation", late);
    }

    /// Signals: each that was acknowledged is there, consumed at most once, and in order.
    fn mail(&mut self, case: &Case<'_>) {
        let mut sent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for answer in &case.answers {
            let words: Vec<_> = answer.order.split(' ').collect();
            let ["signal", _, topic, id] = words[..] else { continue };
            if answer.answer.starts_with("ended") {
                self.figures.count("messages to runs that had ended", 1);
                continue;
            }
            let known = sent.entry(topic).or_default();
            if known.contains(&id) {
                self.figures.count("messages sent again after they were acknowledged", 1);
                if answer.answer != "duplicate" {
                    self.wrong(case, &format!("{} was taken twice", answer.order));
                }
                continue;
            }
            known.push(id);
            self.figures.count("messages acknowledged", 1);
            match self.messages.get(&(case.run.clone(), format!("signal:{id}"))) {
                None => self.wrong(case, &format!("{} is lost", answer.order)),
                Some((_, Some(_))) => self.figures.count("messages consumed", 1),
                Some((_, None)) if case.is_cancelled => {
                    self.figures.count("messages left over by cancelled runs", 1);
                }
                Some((_, None)) => self.wrong(case, &format!("{} was not consumed", answer.order)),
            }
        }
        let mut received: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for event in case.events {
            if let Event::SignalReceived(e) = event {
                received.entry(&e.name).or_default().push(e.id.strip_prefix("signal:").unwrap_or(&e.id));
            }
        }
        for (topic, received) in received {
            let sent = sent.get(topic).cloned().unwrap_or_default();
            if !sent.starts_with(&received) {
                self.wrong(case, &format!("of topic {topic} it received {received:?}, sent were {sent:?}"));
            }
        }
    }

    /// Approvals and resolutions that were acknowledged.
    fn decisions(&mut self, case: &Case<'_>, driver: &Driver) {
        for decided in &driver.decided {
            let words: Vec<_> = decided.splitn(3, ' ').collect();
            let [kind, run, of] = words[..] else { panic!("{decided}") };
            if run != case.run {
                continue;
            }
            let times = case.events.iter().filter(|event| match event {
                Event::ApprovalDecided(e) => kind == "Approval" && e.command.to_string() == of,
                Event::InvocationResolved(e) => {
                    kind == "Resolution" && e.actor == "operator" && e.invocation.to_string() == of
                }
                _ => false,
            });
            let times = times.count();
            self.figures.count("decisions of people acknowledged", 1);
            if times != 1 && !(times == 0 && case.is_cancelled) {
                self.wrong(case, &format!("{decided} is in the journal {times} times"));
            }
        }
    }

    /// The ledger, the journal and the tools tell of the same calls.
    async fn ledger(&mut self, case: &Case<'_>, store: &dyn Store, id: &RunId) {
        let entries = store.entries(id).await.unwrap();
        let keys: BTreeSet<_> = entries.iter().map(|entry| entry.key.to_string()).collect();
        let prefix = format!("aether:{}:", case.run);
        let of_run: Vec<_> = self
            .calls
            .range(prefix.clone()..)
            .take_while(|(key, _)| key.starts_with(&prefix))
            .map(|(key, _)| key.clone())
            .collect();
        for key in of_run {
            let lines = self.calls[&key].clone();
            let (policy, begun) =
                (lines[0].policy.unwrap(), lines.iter().filter(|line| line.deed == Deed::Begin).count());
            self.figures.count("calls of bodies", begun);
            if !policy.changes_world() {
                self.figures.count("repeats of reads", begun - 1);
                continue;
            }
            if !keys.contains(&key) {
                self.wrong(case, &format!("`{key}` was called and is not in the ledger"));
            }
            let allowed = case.retries(|invocation| is_of(&key, &case.run, invocation));
            match policy {
                Policy::Retry => {
                    self.figures.count("repeats of `retry`, under the same key", begun - 1);
                    self.figures.most("most calls under one key of `retry`", begun);
                }
                _ => {
                    self.figures.count("repeats against the policy", begun - 1);
                    self.figures.most("most calls under one key, but for reads and `retry`", begun);
                }
            }
            if begun > 1 + allowed {
                self.wrong(case, &format!("`{key}` was called {begun} times, allowed were {}", 1 + allowed));
            }
        }
        for event in case.events {
            let Event::ToolInvocationFinished(e) = event else { continue };
            let returned = |(key, lines): (&String, &Vec<Line>)| {
                is_of(key, &case.run, e.invocation.as_str())
                    && lines.iter().any(|line| line.deed == Deed::End)
            };
            let decided = case.events.iter().any(|event| matches!(event, Event::InvocationResolved(r) if r.invocation == e.invocation && r.decision == InvocationDecision::Happened));
            if e.result.is_some()
                && !decided
                && !self
                    .calls
                    .range(prefix.clone()..)
                    .take_while(|(key, _)| key.starts_with(&prefix))
                    .any(returned)
            {
                self.wrong(case, &format!("`{}` has a result and never returned", e.invocation));
            }
        }
    }

    /// Every decision about an unknown outcome had a cause, and what was denied did not happen.
    fn effects(&mut self, case: &Case<'_>) {
        for (at, event) in case.events.iter().enumerate() {
            let Event::InvocationResolved(e) = event else { continue };
            let key = self.calls.keys().find(|key| is_of(key, &case.run, e.invocation.as_str())).cloned();
            let lines = key.as_ref().map(|key| self.calls[key].clone()).unwrap_or_default();
            let changed = lines.iter().any(|line| line.deed == Deed::Change);
            match e.decision {
                InvocationDecision::InDoubt => self.figures.count("in doubt: calls that failed for it", 1),
                InvocationDecision::Ask => self.figures.count("in doubt: operator asked", 1),
                InvocationDecision::Retry => self.figures.count("in doubt: called again", 1),
                InvocationDecision::Happened => self.figures.count("in doubt: it had happened", 1),
                InvocationDecision::DidNotHappen => {
                    self.figures.count("in doubt: denied, and called under a new key", 1)
                }
            }
            if e.decision == InvocationDecision::DidNotHappen && changed {
                self.figures.count("denied by a probe or an operator, and done after that", 1);
                if e.actor != "probe" || self.knows_of_owner(&lines) {
                    self.wrong(case, &format!("`{}` was denied by {} and happened", e.invocation, e.actor));
                }
            }
            // A decision by an operator or a probe follows the one that had the cause.
            // One that a shutdown cut off before its body is known not to have been made.
            if e.actor == "operator" || e.actor == "engine: released" {
                continue;
            }
            match self.cause(case, &lines, at) {
                Some(cause) => self.figures.count(cause, 1),
                None => self.wrong(
                    case,
                    &format!("`{}` was in doubt without a cause ({:?})", e.invocation, e.decision),
                ),
            }
        }
    }

    /// Whether the store could tell that the process of a call was there when others took its run over. Not after a restart
    /// of the server during its pause, which closed its session; and behind a pooler, nobody can.
    fn knows_of_owner(&self, lines: &[Line]) -> bool {
        let Some(begun) = lines.iter().find(|line| line.deed == Deed::Begin) else { return true };
        let done = lines.iter().rfind(|line| line.pid == begun.pid).map_or(begun.at, |line| line.at);
        let meets = |fault: &&Happened| fault.from <= done && fault.until >= begun.at;
        let mut faults = self.figures.faults.iter().filter(meets);
        if faults.clone().any(|fault| fault.fault == Fault::Restart) {
            return false;
        }
        let was_paused = faults.any(|fault| fault.fault == Fault::Pause && fault.pid == begun.pid);
        let gap = |line: &Line| line.deed == Deed::Gap && line.pid == begun.pid && line.at >= begun.at;
        self.sees_paused || !(was_paused || self.lines.iter().any(gap))
    }

    /// Why the outcome of a call could not be known: what hit its process before the call was over and its outcome written.
    /// The decision is the event at `decided`.
    fn cause(&self, case: &Case<'_>, lines: &[Line], decided: usize) -> Option<&'static str> {
        let lease = u64::try_from(self.figures.plan.lease.as_micros()).unwrap();
        let calls: Vec<_> = lines.iter().filter(|line| line.deed == Deed::Begin).collect();
        let (earlier, is_taken_over) = case.before(decided);
        let uncalled = is_taken_over || case.is_cancelled;
        let uncalled = uncalled.then_some("cause of doubt: taken over before its call");
        // Calls under a policy of `retry` have one key. Where one intent of them was not called, nobody knows which.
        if uncalled.is_some() && calls.len() <= case.retries(|invocation| case.is_about(decided, invocation))
        {
            return uncalled;
        }
        let Some(begun) = calls.get(earlier).or(calls.last()) else { return uncalled };
        let (pid, at) = (begun.pid, begun.at);
        let over = lines
            .iter()
            .find(|line| line.pid == pid && line.at >= at && matches!(line.deed, Deed::End | Deed::Drop));
        let over = match over {
            // What cut it off was there before.
            Some(line) if line.deed == Deed::Drop => line.at,
            Some(line) => line.at + WRITTEN,
            None => u64::MAX,
        };
        // A call whose intent was on its way when the shutdown began is made within its patience.
        let after =
            |fault: &Happened| (fault.until >= at || fault.fault == Fault::Shutdown) && fault.from <= over;
        let of_pid = |fault: &&Happened| fault.pid == pid && after(fault);
        let mut faults = self.figures.faults.iter().filter(of_pid);
        let paused = |fault: &Happened| fault.fault == Fault::Pause && fault.until - fault.from > lease / 2;
        if faults.clone().any(paused) {
            return Some("cause of doubt: its process was paused");
        }
        if faults.clone().any(|fault| fault.fault == Fault::Kill) {
            return Some("cause of doubt: its process was killed");
        }
        if faults.any(|fault| fault.fault == Fault::Shutdown) {
            return Some("cause of doubt: its engine was shut down");
        }
        let silent = |line: &&Line| {
            line.pid == pid
                && line.deed == Deed::Gap
                && line.at >= at
                && line.key.parse::<u64>().is_ok_and(|from| from <= over && line.at - from > lease / 2)
        };
        if self.lines.iter().any(|line| silent(&line)) {
            return Some("cause of doubt: its process had no processor");
        }
        if case.is_cancelled && lines.iter().any(|line| line.deed == Deed::Drop) {
            return Some("cause of doubt: cancelled, and its grace was over");
        }
        // Nobody could renew for a good part of a lease; who is back first may take the runs of the last one.
        let down = |fault: &Happened| {
            fault.fault == Fault::Restart
                && fault.from <= over
                && fault.until + 2 * lease >= at
                && fault.until - fault.from > lease / 2
        };
        let was_down = self.figures.faults.iter().any(down);
        was_down.then_some("cause of doubt: the server was away for too long")
    }
}

/// Whether `key` is that of an invocation such as `0:pay#1`: the run, the command and the attempt.
fn is_of(key: &str, run: &str, invocation: &str) -> bool {
    let Some((command, attempt)) = invocation.rsplit_once('#') else { return false };
    key == format!("aether:{run}:{command}:{attempt}")
}

/// First and last line of the calls that are meant.
fn calls_at(lines: &[Line], meant: impl Fn(&str) -> bool) -> Option<(u64, u64)> {
    let mut of_run = lines.iter().filter(|line| meant(&line.key)).map(|line| line.at);
    let first = of_run.next()?;
    Some((first, of_run.last().unwrap_or(first)))
}

/// An event in one line.
fn line_of(at: usize, event: &Event) -> String {
    let text: String = serde_json::to_string(event).unwrap_or_default().chars().take(300).collect();
    format!("    {at} {text}")
}
