//! People and other systems of a simulation: consent, decisions, answers, signals and reports of outcomes, all in
//! virtual time.
//!
//! Promise: everybody speaks through the engine's own interface, as they would outside; nobody speaks who was not told
//! to; a crash loses no word that was to be said.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aether_core::approval::Approvals;
use aether_core::engine::DecideError;
use aether_core::event::Event;
use aether_core::failure::Failure;
use aether_core::id::{CommandId, RunId};
use aether_core::outcome::FailureClass;
use aether_core::payload::{Payload, PayloadError};
use aether_core::pending::{Pending, Waiting};
use aether_core::step::{BodyError, BodyResult, Step, Workflow};
use aether_core::step_cx::StepCx;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;

use super::script::{self, Behaviour};
use super::stage::Stage;
use super::{Live, Sim, SimError};

/// Who decides where the test does not say.
const REVIEWER: &str = "reviewer";
/// How often a request is looked for that was announced and is not durable yet, a virtual millisecond apart.
const LOOKS: u32 = 1_000;

type Edit = Arc<dyn Fn(&Payload) -> Result<Payload, PayloadError> + Send + Sync>;
type Reply = Arc<dyn Fn(&Value) -> Option<Result<Payload, PayloadError>> + Send + Sync>;

/// What somebody says to a request.
#[derive(Clone)]
enum Word {
    Approve { actor: String },
    Edit(Edit),
    Reject { reason: String },
    Silent,
}

/// What people do in a simulation.
#[derive(Clone, Default)]
pub(super) struct People {
    /// About calls of steps, by the steps' unique names.
    by_step: BTreeMap<String, Word>,
    /// About what a workflow asks to decide, by its text.
    by_text: BTreeMap<String, Word>,
    replies: Vec<Reply>,
    signals: Vec<(Duration, String, Result<Payload, PayloadError>)>,
    after: Duration,
    pub(super) approvals: Approvals,
}

impl People {
    fn is_asked(&self) -> bool {
        !(self.by_step.is_empty() && self.by_text.is_empty() && self.replies.is_empty())
    }

    /// What is said to an approval.
    fn word(&self, pending: &Pending) -> Option<&Word> {
        let question: Value = pending.question.as_ref()?.decode().ok()?;
        let text = |field: &str| question.get(field).and_then(Value::as_str);
        let of_step = text("step").and_then(|step| self.by_step.get(step));
        of_step.or_else(|| self.by_text.get(text("what")?))
    }

    fn reply(&self, pending: &Pending) -> Option<Result<Payload, PayloadError>> {
        let question: Value = pending.question.as_ref()?.decode().ok()?;
        self.replies.iter().find_map(|reply| reply(&question))
    }
}

impl<W: Workflow> Sim<W> {
    fn people(self, change: impl FnOnce(&mut People)) -> Self {
        self.with(|settings| change(&mut settings.people))
    }

    fn by_step<S: Step>(self, word: Word) -> Self {
        self.people(|people| drop(people.by_step.insert(S::DEF.path.into(), word)))
    }

    /// Asks people before the calls that `approvals` names, beyond those whose steps declare it.
    pub fn approvals(self, approvals: Approvals) -> Self {
        self.people(|people| people.approvals = approvals)
    }

    /// `actor` agrees to every call of `S` that needs consent.
    pub fn approves<S: Step>(self, actor: impl Into<String>) -> Self {
        self.by_step::<S>(Word::Approve { actor: actor.into() })
    }

    /// A person agrees to every call of `S` that needs consent, with other arguments.
    pub fn edits<S: Step>(self, edit: impl Fn(S::Args) -> S::Args + Send + Sync + 'static) -> Self {
        self.by_step::<S>(Word::Edit(Arc::new(move |args| S::encode(&edit(S::decode(args)?)))))
    }

    /// A person refuses every call of `S` that needs consent.
    pub fn rejects<S: Step>(self, reason: impl Into<String>) -> Self {
        self.by_step::<S>(Word::Reject { reason: reason.into() })
    }

    /// Nobody says anything to calls of `S` that need consent; that is also what happens when nothing is said here.
    pub fn silent<S: Step>(self) -> Self {
        self.by_step::<S>(Word::Silent)
    }

    /// `actor` agrees to what the workflow asks to decide with `cx.approval(what)`.
    pub fn grants(self, what: impl Into<String>, actor: impl Into<String>) -> Self {
        let word = Word::Approve { actor: actor.into() };
        self.people(|people| drop(people.by_text.insert(what.into(), word)))
    }

    /// A person refuses what the workflow asks to decide with `cx.approval(what)`.
    pub fn refuses(self, what: impl Into<String>, reason: impl Into<String>) -> Self {
        let word = Word::Reject { reason: reason.into() };
        self.people(|people| drop(people.by_text.insert(what.into(), word)))
    }

    /// Answers questions of `cx.ask(..)`: the first closure that does not return `None` counts. An answer of another
    /// type than the workflow asked for ends the simulation.
    pub fn answers<T: Serialize>(self, answer: impl Fn(&Value) -> Option<T> + Send + Sync + 'static) -> Self {
        let reply: Reply = Arc::new(move |question| answer(question).map(|value| Payload::encode(&value)));
        self.people(|people| people.replies.push(reply))
    }

    /// Answers the question of `cx.ask(question)`.
    pub fn answer<T: Serialize + Clone + Send + Sync + 'static>(
        self,
        question: impl Into<Value>,
        answer: T,
    ) -> Self {
        let question = question.into();
        self.answers(move |asked| (*asked == question).then(|| answer.clone()))
    }

    /// How long everybody who is asked takes, in virtual time. Default none.
    pub fn people_take(self, time: Duration) -> Self {
        self.people(|people| people.after = time)
    }

    /// Sends the run a signal, this long after the simulation's beginning.
    pub fn signal_at(self, after: Duration, name: impl Into<String>, value: impl Serialize) -> Self {
        let signal = (after, name.into(), Payload::encode(&value));
        self.people(|people| people.signals.push(signal))
    }

    /// Lets the body of `S` hand its completion over with `cx.callback()`, and reports this outcome so much later.
    ///
    /// # Panics
    /// When `S` does not change the world, so that it cannot hand its completion over.
    #[track_caller]
    pub fn reports_after<S: Step>(
        self,
        after: Duration,
        outcome: impl Fn(S::Args) -> Result<S::Output, S::Error> + Send + Sync + 'static,
    ) -> Self {
        script::assert_may_be_in_doubt::<S>();
        let report = move |args: &Payload| script::encode::<S>(&outcome(S::decode(args)?));
        self.then::<S>(Behaviour::HandOver(after, Arc::new(report)))
    }
}

/// Says what is to be said while a process lives.
pub(super) fn attend(people: &People, stage: &Arc<Stage>, live: &Live) {
    if people.is_asked() {
        let everybody = Everybody { people: people.clone(), stage: Arc::clone(stage), live: live.clone() };
        tokio::spawn(everybody.listen());
    }
    for (number, (after, name, value)) in people.signals.iter().cloned().enumerate() {
        let (live, stage) = (live.clone(), Arc::clone(stage));
        tokio::spawn(async move { signal(&live, &stage, after, &name, number, value).await });
    }
    tokio::spawn(stage.reports.clone().deliver(Arc::clone(stage), live.clone()));
}

async fn signal(
    live: &Live,
    stage: &Stage,
    after: Duration,
    name: &str,
    number: usize,
    value: Result<Payload, PayloadError>,
) {
    let value = match value {
        Ok(value) => value,
        Err(error) => return stage.give_up(SimError::Input(error)),
    };
    live.sleep_until(after).await;
    // A process that died may have sent it: the same id is taken once.
    if let Err(error) = live.engine().signal(live.run_id(), name, &format!("sim-{number}"), &value).await {
        stage.give_up(error.into());
    }
}

/// Everybody who is asked something.
#[derive(Clone)]
struct Everybody {
    people: People,
    stage: Arc<Stage>,
    live: Live,
}

impl Everybody {
    async fn listen(self) {
        let mut watch = self.live.engine().watch();
        let mut heard = BTreeSet::new();
        self.look_around(&mut heard).await;
        loop {
            match watch.recv().await {
                Ok(observed) => {
                    for event in observed.events.iter() {
                        self.hear(&mut heard, &observed.run, event);
                    }
                }
                Err(RecvError::Lagged(_)) => self.look_around(&mut heard).await,
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// What was asked before anybody listened: by a process that died.
    async fn look_around(&self, heard: &mut BTreeSet<(RunId, CommandId)>) {
        match self.live.engine().all_pending().await {
            Ok(all) => all.into_iter().for_each(|open| self.attend_to(heard, &open.run, &open.command)),
            Err(error) => self.stage.give_up(error.into()),
        }
    }

    fn hear(&self, heard: &mut BTreeSet<(RunId, CommandId)>, run: &RunId, event: &Event) {
        match event {
            Event::ApprovalRequested(asked) => self.attend_to(heard, run, &asked.command),
            Event::AnswerRefused(refused) => {
                let (command, reason) = (refused.command.clone(), refused.reason.clone());
                self.stage.give_up(SimError::Refused { run: run.clone(), command, reason });
            }
            _ => {}
        }
    }

    fn attend_to(&self, heard: &mut BTreeSet<(RunId, CommandId)>, run: &RunId, command: &CommandId) {
        if heard.insert((run.clone(), command.clone())) {
            let (everybody, run, command) = (self.clone(), run.clone(), command.clone());
            tokio::spawn(async move { everybody.say(&run, &command).await });
        }
    }

    async fn say(&self, run: &RunId, command: &CommandId) {
        self.live.sleep(self.people.after).await;
        let Some(pending) = self.open(run, command).await else { return };
        let said = match pending.waiting {
            Waiting::Approval => self.decide(&pending).await,
            Waiting::Question => self.answer(&pending).await,
            _ => return,
        };
        match said {
            // Somebody was faster: the time limit, or what else the test does.
            Ok(())
            | Err(
                DecideError::AlreadyDecided { .. }
                | DecideError::Expired { .. }
                | DecideError::RunEnded { .. }
                | DecideError::NotWaiting { .. },
            ) => {}
            Err(error) => {
                let (run, command, reason) = (run.clone(), command.clone(), error.to_string());
                self.stage.give_up(SimError::Refused { run, command, reason });
            }
        }
    }

    /// What is asked, once it is durable; `None` where it is not asked any more.
    async fn open(&self, run: &RunId, command: &CommandId) -> Option<Pending> {
        for _ in 0..LOOKS {
            match self.live.engine().pending(run).await {
                Ok(all) => {
                    if let Some(pending) = all.into_iter().find(|pending| pending.command == *command) {
                        return Some(pending);
                    }
                }
                Err(error) => self.stage.give_up(error.into()),
            }
            self.live.sleep(Duration::from_millis(1)).await;
        }
        None
    }

    async fn decide(&self, pending: &Pending) -> Result<(), DecideError> {
        let (engine, Pending { run, command, args, .. }) = (self.live.engine(), pending);
        match self.people.word(pending) {
            Some(Word::Approve { actor }) => engine.approve(run, command, actor).await,
            Some(Word::Reject { reason }) => engine.reject(run, command, reason, REVIEWER).await,
            Some(Word::Edit(edit)) => {
                let edited = edit(args.as_ref().unwrap_or(&Payload::null()))?;
                engine.approve_with(run, command, &edited, REVIEWER).await
            }
            Some(Word::Silent) | None => Ok(()),
        }
    }

    async fn answer(&self, pending: &Pending) -> Result<(), DecideError> {
        match self.people.reply(pending) {
            Some(answer) => {
                self.live.engine().answer(&pending.run, &pending.command, &answer?, REVIEWER).await
            }
            None => Ok(()),
        }
    }
}

/// Reports of outcomes by other systems, over all processes of a simulation.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports(Arc<Desk>);

#[derive(Debug, Default)]
struct Desk {
    list: Mutex<Vec<Report>>,
    filed: Notify,
}

#[derive(Clone, Debug)]
struct Report {
    run: RunId,
    command: CommandId,
    token: String,
    after: Duration,
    outcome: Result<Payload, Payload>,
}

impl Reports {
    /// What a body ends with whose outcome is to be reported later.
    pub(super) fn hand_over(&self, cx: &StepCx, after: Duration, outcome: BodyResult) -> BodyResult {
        let outcome = outcome?.map_err(|error| error.error);
        let ended: Failure = match cx.callback() {
            Ok(callback) => {
                let (run, command, token) =
                    (cx.run_id().clone(), cx.command_id().clone(), callback.token().to_owned());
                let report = Report { run, command, token, after, outcome };
                self.0.list.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                self.0.filed.notify_one();
                callback.pending().into()
            }
            Err(error) => error.into(),
        };
        let (error, message) = (Payload::encode(&ended)?, ended.to_string());
        Ok(Err(BodyError { error, message, class: FailureClass::Permanent, retry_after: None }))
    }

    /// Delivers reports while a process lives, those too that the last one did not live to hear.
    async fn deliver(self, stage: Arc<Stage>, live: Live) {
        let mut known = 0;
        loop {
            let new: Vec<Report> = {
                let list = self.0.list.lock().unwrap_or_else(PoisonError::into_inner);
                list.iter().skip(known).cloned().collect()
            };
            known += new.len();
            for report in new {
                let (stage, live) = (Arc::clone(&stage), live.clone());
                tokio::spawn(async move { report.tell(&stage, &live).await });
            }
            self.0.filed.notified().await;
        }
    }
}

impl Report {
    async fn tell(&self, stage: &Stage, live: &Live) {
        live.sleep(self.after).await;
        let told = match &self.outcome {
            Ok(value) => live.engine().complete_callback(&self.token, value).await,
            Err(error) => live.engine().fail_callback(&self.token, error).await,
        };
        match told {
            // Told by a process that died, or decided otherwise.
            Ok(_)
            | Err(
                DecideError::NotWaiting { .. } | DecideError::RunEnded { .. } | DecideError::Expired { .. },
            ) => {}
            Err(error) => {
                let (run, command) = (self.run.clone(), self.command.clone());
                stage.give_up(SimError::Refused { run, command, reason: error.to_string() });
            }
        }
    }
}

impl fmt::Debug for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.by_step.keys().chain(self.by_text.keys());
        f.debug_set().entries(steps).finish()
    }
}

/// What to add to the test for a wait that nobody ended.
pub(super) fn advice(pending: &Pending) -> String {
    let question: Value =
        pending.question.as_ref().and_then(|question| question.decode().ok()).unwrap_or_default();
    let text = |field: &str| question.get(field).and_then(Value::as_str);
    let (run, command, name) = (&pending.run, &pending.command, pending.command.name());
    let add = match (pending.waiting, text("step"), text("what")) {
        (Waiting::Approval, Some(path), _) => {
            let step = path.rsplit("::").next().unwrap_or(path);
            format!(
                "`.approves::<{step}>(\"ann\")`, `.edits::<{step}>(|args| args)` or `.rejects::<{step}>(\"why\")`"
            )
        }
        (Waiting::Approval, None, Some(what)) => {
            format!("`.grants({what:?}, \"ann\")` or `.refuses({what:?}, \"why\")`")
        }
        (Waiting::Question, ..) => match &question {
            Value::String(question) => format!("`.answer({question:?}, its_answer)`"),
            _ => "`.answers(|question| Some(its_answer))`".into(),
        },
        (Waiting::Callback, ..) => {
            format!("`.reports_after::<{name}>(Duration::from_secs(60), |args| Ok(its_outcome))`")
        }
        _ => "`.meanwhile(|live| ..)`, and in it the word that it waits for".into(),
    };
    format!("command `{command}` of run `{run}` waits for {}: add {add}", pending.waiting)
}

/// What to add to the test for signals that are waited for.
pub(super) fn missing_signals(events: &[Event]) -> Vec<String> {
    let mut waits = BTreeMap::new();
    for event in events {
        match event {
            Event::WaitStarted(wait) => drop(waits.insert(&wait.command, &wait.name)),
            Event::WaitCompleted(wait) => drop(waits.remove(&wait.command)),
            _ => {}
        }
    }
    let told = |(command, name)| {
        format!(
            "command `{command}` waits for a signal: add `.signal_at(Duration::from_secs(60), {name:?}, its_value)`"
        )
    };
    waits.into_iter().map(told).collect()
}
