//! The lives of a program: engines that begin on what the last one left, until one of them ends the run.
//!
//! Promise: what is read for the verdict is read from the store that survived, and only by public API.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aether::effect::Payload;
use aether::encryption::{CodedStore, Encryption, Keys, SecretKey};
use aether::engine::{EngineBuilder, Limits};
use aether::error::RunError;
use aether::id::{InvocationId, RunId};
use aether::people::{Pending, Resolution, Waiting};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::event::{Event, InvocationDecision};
use aether::store::journal::read_verified;
use aether::store::ledger::LedgerEntry;
use aether::store::{MemoryStore, WaitFilter, check_integrity, read, waits_in_journal};
use aether::store::{RunFilter, Store};
use aether::view::RunView;
use aether_core::environment::Environment as _;
use aether_pg_tests::Database;
use aether_testing::{AgreeingStore, CrashPoint, CrashStore, SimEnvironment};
use jiff::Timestamp;

use super::bookings;
use super::interpret::interpret;
use super::model::ANSWER;
use super::program::{Call, Case, Moment, Part, Word, leaves_runs_alone, needs_operator};
use super::stage::{Deeds, Life, Stage, mixed};
use super::steps::AsLeft;
use crate::planted::Planted;
use crate::postgres::way::{Way, block_on};
use crate::seeds::kit::flushed;

/// How long a dead process's claims last, in virtual time.
const LEASE: Duration = Duration::from_secs(3600);

/// How long the claims of a process that died last on a server.
pub(crate) const DEAD: Duration = Duration::from_secs(1);

/// Name of the run of every program.
pub(crate) const RUN: &str = "case";

/// Where the runs are kept, and by which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// In memory; waiting takes no time.
    Memory,
    /// In a SQLite file, by the real clock.
    Sqlite,
    /// Like that, and encrypted: in the life of this number, which has a key of its own and the keys of all lives before.
    Encrypted(u8),
    /// In a Postgres database that is reached in this way, by the real clock.
    Postgres(Way),
}

impl Keeping {
    /// The same in the life of this number, from 0.
    pub(crate) fn in_life(self, number: usize) -> Self {
        match self {
            Self::Encrypted(_) => Self::Encrypted(u8::try_from(number).unwrap()),
            other => other,
        }
    }

    /// What encrypts in this life.
    fn codec(self) -> Option<Encryption> {
        let Self::Encrypted(life) = self else { return None };
        let key = |number: u8| SecretKey::from([number; 32]);
        let ring = Keys::new(format!("life {life}"), key(life), key(200));
        Some(Encryption::new((0..life).fold(ring, |ring, old| ring.and_old(format!("life {old}"), key(old)))))
    }

    /// What reads `store` in this life.
    pub(crate) fn reading(self, store: &Arc<dyn Store>) -> Arc<dyn Store> {
        match self.codec() {
            Some(codec) => Arc::new(CodedStore::new(store.clone(), Some(Arc::new(codec)))),
            None => store.clone(),
        }
    }

    /// What of a program may not be in the folder of its file, and is: all of what is searched for, where it is not
    /// encrypted.
    pub(crate) fn shown(self, folder: &Path) -> std::result::Result<BTreeSet<String>, String> {
        static PLANTED: LazyLock<Planted> = LazyLock::new(|| {
            // The arguments of all calls, the messages of all errors, and the question.
            Planted::new([
                ("argument", "\"strict\":"),
                ("error", "failed at attempt"),
                ("question", "how many?"),
            ])
        });
        let found = match self {
            Self::Sqlite | Self::Encrypted(_) => PLANTED.found_below(folder).0,
            Self::Memory | Self::Postgres(_) => BTreeSet::new(),
        };
        match self {
            Self::Encrypted(_) if !found.is_empty() => Err(format!("these stand in the open: {found:?}")),
            _ => Ok(found.into_iter().map(|(name, _)| name).collect()),
        }
    }
}

/// What outlives a process: a place that another one can open.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    File(PathBuf),
    Server(Way, String),
}

impl Address {
    /// Opens the store.
    pub(crate) async fn open(&self) -> std::result::Result<Arc<dyn Store>, String> {
        match self {
            Self::File(file) => Ok(Arc::new(SqliteStore::open(file).map_err(|error| error.to_string())?)),
            Self::Server(way, url) => Ok(Arc::new(way.open(url).await)),
        }
    }

    /// The address of a new place with the table of the transaction steps, and what must live as long as it.
    pub(crate) fn make(keeping: Keeping, folder: &Path) -> (Self, Option<Database<'static>>) {
        let (address, database) = if let Keeping::Postgres(way) = keeping {
            let database = block_on(way.database());
            (Self::Server(way, way.url(&database)), Some(database))
        } else {
            (Self::File(folder.join("case.db")), None)
        };
        bookings::open(&address).unwrap();
        (address, database)
    }
}

/// How a process dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Death {
    Write(CrashPoint),
    /// In the body call of this number, from 1.
    Body(u64, Moment),
}

/// Run and invocation.
pub(crate) type Invoked = (String, String);

/// What all lives of a program left.
#[derive(Debug)]
pub(crate) struct Lived {
    /// The run's value, or the message of its error.
    pub(crate) result: std::result::Result<Vec<String>, String>,
    pub(crate) journals: BTreeMap<String, Vec<Event>>,
    pub(crate) ledger: Vec<LedgerEntry>,
    /// Invocations that were begun and of whose end or decision the journal did not tell when a process died.
    pub(crate) cut: BTreeSet<Invoked>,
    pub(crate) deeds: BTreeMap<String, Deeds>,
    pub(crate) crashes: usize,
    /// Writes, writes to the effect store, and body calls of the last process.
    pub(crate) writes: u64,
    pub(crate) effects: u64,
    pub(crate) bodies: u64,
    /// What does not replay, or is illegal.
    pub(crate) faults: Vec<String>,
    /// What of the program stood in its file in the open.
    pub(crate) shown: BTreeSet<String>,
}

/// Executes the program of `case`, in processes that die as told.
pub(crate) fn live(case: &Case, deaths: &[Death], keeping: Keeping) -> std::result::Result<Lived, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let memory = Arc::new(AgreeingStore::new(MemoryStore::new()));
    let (address, database) = Address::make(keeping, folder.path());
    let (stage, mut cut, mut shown) = (Stage::default(), BTreeSet::new(), BTreeSet::new());
    let mut at = Timestamp::from_second(1_767_225_600).map_err(|error| error.to_string())?;
    for number in 0..=deaths.len() {
        let (runtime, keeping) = (runtime(keeping), keeping.in_life(number));
        let inner: Arc<dyn Store> = match keeping {
            Keeping::Memory => memory.clone(),
            _ => runtime.block_on(address.open())?,
        };
        let reading = keeping.reading(&inner);
        let seed = case.seed.wrapping_add(number as u64);
        let life = One::begin(case, &stage, &inner, keeping, at, seed, deaths.get(number).copied());
        let ended = runtime.block_on(life.live());
        // A write whose acknowledgement was withheld is on its way.
        runtime.block_on(flushed(&inner));
        if let Some(database) = &database {
            block_on(database.until_idle());
        }
        // With the log of the file, which holds what was overwritten.
        shown.extend(keeping.shown(folder.path())?);
        match ended? {
            End::Ended(result) => {
                let (writes, effects) = (life.store.writes(), life.effects());
                let lived = runtime.block_on(left(&reading, result, cut))?;
                let mut deeds = stage.deeds();
                if keeping != Keeping::Memory {
                    bookings::add(&address, &mut deeds)?;
                }
                if let Some(differs) = memory.disagreement() {
                    return Err(format!("the list of open waits differs: {differs}"));
                }
                return Ok(Lived {
                    shown,
                    deeds,
                    crashes: number,
                    writes,
                    effects,
                    bodies: stage.bodies(),
                    ..lived
                });
            }
            End::Died(when) => {
                at = when.saturating_add(LEASE + Duration::from_secs(1)).unwrap_or(Timestamp::MAX);
                cut.extend(runtime.block_on(cut_off(&*reading))?);
                stage.end();
                // What the end of a process does: its locks are gone.
                runtime.block_on(inner.close()).map_err(|error| error.to_string())?;
            }
        }
    }
    Err("the last process died too".into())
}

pub(crate) fn runtime(keeping: Keeping) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(keeping == Keeping::Memory).build().unwrap()
}

/// All journals of a store.
pub(crate) async fn journals(store: &dyn Store) -> std::result::Result<BTreeMap<String, Vec<Event>>, String> {
    let mut journals = BTreeMap::new();
    for record in store.runs(RunFilter::default()).await.map_err(|error| error.to_string())? {
        journals.insert(record.id.to_string(), journal(store, &record.id).await?);
    }
    Ok(journals)
}

/// The journal of one run, with its chain verified and its large values.
pub(crate) async fn journal(store: &dyn Store, run: &RunId) -> std::result::Result<Vec<Event>, String> {
    let frames = store.load(run, 0).await.map_err(|error| error.to_string())?;
    let read = read_verified(&frames).map_err(|error| format!("journal of {run}: {error}"));
    let events = read::events(store, run, &frames).await;
    read.and(events.map_err(|error| error.to_string()))
}

/// The invocations that are begun, neither ended nor decided nor left to somebody outside, and of whose outcome the
/// effect store tells nothing either.
pub(crate) async fn cut_off(store: &dyn Store) -> std::result::Result<BTreeSet<Invoked>, String> {
    let mut open = BTreeSet::new();
    for (run, events) in journals(store).await? {
        let id = RunId::new(run.as_str()).map_err(|error| error.to_string())?;
        let effects = store.effects(&id).await.map_err(|error| error.to_string())?;
        let kept: BTreeSet<_> = effects.into_iter().map(|effect| effect.key).collect();
        for event in events {
            let named = |invocation: &InvocationId| (run.clone(), invocation.to_string());
            match event {
                Event::ToolInvocationStarted(e) if kept.contains(&e.key) => {}
                Event::ToolInvocationStarted(e) => drop(open.insert(named(&e.invocation))),
                Event::CallbackAwaited(e) => drop(open.remove(&named(&e.invocation))),
                Event::ToolInvocationFinished(e) => drop(open.remove(&named(&e.invocation))),
                Event::InvocationAbandoned(e) => drop(open.remove(&named(&e.invocation))),
                // A repeat that is cut off is in doubt again.
                Event::InvocationResolved(e) if e.decision != InvocationDecision::Retry => {
                    open.remove(&named(&e.invocation));
                }
                _ => {}
            }
        }
    }
    Ok(open)
}

pub(crate) enum End {
    Ended(std::result::Result<Vec<String>, String>),
    Died(Timestamp),
}

/// One engine, from its start to the run's end or to its death.
pub(crate) struct One<'a> {
    case: &'a Case,
    stage: &'a Stage,
    store: Arc<CrashStore>,
    unit: u64,
    keeping: Keeping,
    at: Timestamp,
    seed: u64,
}

impl<'a> One<'a> {
    /// An engine that is to die as told.
    pub(crate) fn begin(
        case: &'a Case,
        stage: &'a Stage,
        inner: &Arc<dyn Store>,
        keeping: Keeping,
        at: Timestamp,
        seed: u64,
        death: Option<Death>,
    ) -> Self {
        let (point, death) = match death {
            Some(Death::Write(point)) => (Some(point), None),
            Some(Death::Body(call, moment)) => (None, Some((call, moment))),
            None => (None, None),
        };
        let store = Arc::new(CrashStore::new(inner.clone(), point));
        let unit = if keeping == Keeping::Memory { 1000 } else { 1 };
        let tempo = mixed(case.tempo, &seed.to_string());
        let on_server = matches!(keeping, Keeping::Postgres(_));
        stage.begin(Life { store: Some(store.clone()), death, tempo, unit, bodies: 0, on_server });
        Self { case, stage, store, unit, keeping, at, seed }
    }

    /// Writes to the effect store.
    pub(crate) fn effects(&self) -> u64 {
        self.store.effects()
    }

    pub(crate) async fn live(&self) -> std::result::Result<End, String> {
        let world = Arc::new(SimEnvironment::new(self.at, self.seed));
        let builder = match self.keeping {
            Keeping::Memory => {
                // Short, because the next process must see it pass.
                let lease = Duration::from_secs(20);
                Engine::builder().environment(world.clone()).lease(lease).poll_interval(LEASE)
            }
            Keeping::Sqlite | Keeping::Encrypted(_) | Keeping::Postgres(_) => {
                let pause = Duration::from_millis(5);
                // A process that is to die at the write of a number counts them best when none depends on the clock.
                let grace = if Stage::is_alone() { LEASE } else { pause };
                let builder = Engine::builder().poll_interval(pause).eviction_grace(grace);
                // A server does not notice that a process is dead: its lease has to pass.
                if let Keeping::Postgres(_) = self.keeping { builder.lease(DEAD) } else { builder }
            }
        };
        let limits = Limits { inline: self.case.inline, ..Limits::default() };
        let builder = builder.store(self.store.clone()).provide(self.stage.clone()).limits(limits);
        let builder = builder.verifier("file", AsLeft);
        let builder = match self.keeping.codec() {
            Some(codec) => builder.payload_codec(codec),
            None => builder,
        };
        tokio::select! {
            biased;
            () = self.store.crashed() => Ok(End::Died(world.now())),
            ended = self.run(builder) => ended.map(End::Ended),
        }
    }

    async fn run(
        &self,
        builder: EngineBuilder,
    ) -> std::result::Result<std::result::Result<Vec<String>, String>, String> {
        let engine = builder.start().await.map_err(|error| error.to_string())?;
        let part = Part { block: self.case.block.clone(), salt: 0, unit: self.unit };
        let handle =
            engine.start::<interpret>(part).id(RUN).await.map_err(|error| format!("not started: {error}"))?;
        if needs_operator(&self.case.block) {
            tokio::spawn(operate(engine.clone(), self.stage.clone(), self.unit));
        }
        let patience = Duration::from_secs(if self.keeping == Keeping::Memory { 4 * 3600 } else { 240 });
        let ended = async {
            let result = handle.result().await;
            if leaves_runs_alone(&self.case.block) {
                all_ended(&**engine.store(), Duration::from_millis(self.unit * 5)).await;
            }
            result
        };
        match tokio::time::timeout(patience, ended).await {
            Ok(Ok(seen)) => Ok(Ok(seen)),
            Ok(Err(RunError::Failed(failure))) => Ok(Err(failure.message().to_owned())),
            Ok(Err(other)) => Err(format!("the run did not end: {other}")),
            Err(_) => {
                let journals = journals(&**engine.store()).await?;
                Err(format!("the run does not end: {journals:#?}"))
            }
        }
    }
}

/// Waits until no run is open; looks every `pause`.
async fn all_ended(store: &dyn Store, pause: Duration) {
    loop {
        match store.runs(RunFilter::default()).await {
            Ok(runs) if runs.iter().all(|run| run.status.is_terminal()) => return,
            _ => tokio::time::sleep(pause).await,
        }
    }
}

/// How the run ended, as `store` tells.
pub(crate) async fn recorded(
    store: &dyn Store,
) -> std::result::Result<std::result::Result<Vec<String>, String>, String> {
    match journals(store).await?.get(RUN).and_then(|events| events.last()) {
        Some(Event::RunCompleted(e)) => Ok(Ok(e.result.decode().map_err(|error| error.to_string())?)),
        Some(Event::RunFailed(e)) => Ok(Err(e.message.clone())),
        other => Err(format!("the run has not ended: {other:?}")),
    }
}

/// What the processes left in `store`.
pub(crate) async fn left(
    store: &Arc<dyn Store>,
    result: std::result::Result<Vec<String>, String>,
    cut: BTreeSet<Invoked>,
) -> std::result::Result<Lived, String> {
    let journals = journals(&**store).await?;
    let (mut faults, mut ledger) = (Vec::new(), Vec::new());
    let builder = Engine::builder().store(store.clone()).verifier("file", AsLeft);
    let engine = builder.start().await.map_err(|error| error.to_string())?;
    for (run, events) in &journals {
        let run = RunId::new(run.as_str()).map_err(|error| error.to_string())?;
        ledger.extend(engine.ledger(&run).await.map_err(|error| error.to_string())?);
        let listed = store.waits(WaitFilter::default()).await.map_err(|error| error.to_string())?;
        let mut listed: Vec<_> =
            listed.into_iter().filter(|row| row.run == run).map(|row| row.wait).collect();
        listed.sort_by(|a, b| (a.since, &a.command).cmp(&(b.since, &b.command)));
        let journal = waits_in_journal(&**store, &run).await.map_err(|error| error.to_string())?;
        if listed != journal {
            faults.push(format!("{run}: {listed:?} are listed, the journal says {journal:?}"));
        }
        let view = RunView::fold(run.clone(), events.iter().cloned());
        faults.extend(view.illegal.iter().map(|illegal| format!("{run}: {illegal}")));
        if events.last().is_some_and(Event::is_terminal)
            && let Err(error) = engine.verify(&run).await
        {
            faults.push(format!("{run} does not replay: {error}"));
        }
    }
    // Whatever died when: nothing that an engine left is called damaged.
    let checked =
        check_integrity(&**store, RunFilter::new(), |_| ()).await.map_err(|error| error.to_string())?;
    faults.extend(checked.problems.iter().map(|problem| format!("{}: {}", problem.run, problem.reason)));
    let (deeds, shown) = (BTreeMap::new(), BTreeSet::new());
    let (crashes, writes, effects, bodies) = (0, 0, 0, 0);
    Ok(Lived { result, journals, ledger, cut, deeds, crashes, writes, effects, bodies, faults, shown })
}

/// Sends the signals that are waited for, answers, decides and reports.
pub(crate) async fn operate(engine: Engine, stage: Stage, unit: u64) {
    let first = RunId::new(RUN).unwrap();
    // Sent before anybody waits.
    let _sent_or_ended = engine.signal(&first, "s0", "early", &0u32).await;
    loop {
        tokio::time::sleep(Duration::from_millis(unit * 5)).await;
        let Ok(journals) = journals(&**engine.store()).await else { continue };
        for (run, events) in journals {
            let run = RunId::new(run).unwrap();
            if !events.last().is_some_and(Event::is_terminal) {
                serve(&engine, &stage, &run, &events).await;
            }
        }
    }
}

async fn serve(engine: &Engine, stage: &Stage, run: &RunId, events: &[Event]) {
    let (mut waits, mut received) = (BTreeMap::new(), 0);
    for event in events {
        match event {
            Event::WaitStarted(e) => drop(waits.insert(e.command.clone(), e.name.clone())),
            Event::WaitCompleted(e) => {
                waits.remove(&e.command);
                received += 1;
            }
            _ => {}
        }
    }
    for (command, name) in waits {
        let number: u32 = name.trim_start_matches('s').parse().unwrap();
        // Another wait for this signal may have taken what was sent for this one.
        let id = format!("{command} after {received}");
        let _sent_or_ended = engine.signal(run, &name, &id, &number).await;
    }
    for open in engine.pending(run).await.unwrap_or_default() {
        answer(engine, stage, &open).await;
    }
}

/// Says what there is to say to a wait. It may be over meanwhile.
async fn answer(engine: &Engine, stage: &Stage, open: &Pending) {
    let (run, command) = (&open.run, &open.command);
    if open.waiting == Waiting::Question {
        let _answered_or_ended = engine.answer(run, command, &ANSWER, "person").await;
        return;
    }
    let Some(call) = open.args.as_ref().and_then(argument) else { return };
    if open.waiting == Waiting::Approval {
        let _decided_or_ended = match call.agreed() {
            None => engine.reject(run, command, "no", "person").await,
            Some(agreed) if agreed == call => engine.approve(run, command, "person").await,
            Some(call) => engine.approve_with(run, command, &Arguments { call }, "person").await,
        };
        return;
    }
    let Some(invocation) = &open.invocation else { return };
    let (_, attempt) = invocation.as_str().rsplit_once('#').unwrap();
    let key = format!("aether:{run}:{command}:{attempt}");
    let value = call.value(attempt.parse().unwrap());
    if open.waiting == Waiting::Callback {
        if let Some(token) = stage.token(&key) {
            let _reported_or_ended = engine.complete_callback(&token, &value).await;
        }
        return;
    }
    let word = match call.word {
        Word::Truth if stage.happened(&key) => Resolution::Happened(Payload::encode(&value).unwrap()),
        Word::Truth => Resolution::DidNotHappen,
        Word::Nothing | Word::Failure => Resolution::Abandon,
    };
    let _resolved_or_ended = engine.resolve(run, invocation, word, "operator").await;
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Arguments {
    call: Call,
}

/// The call that a step was given.
fn argument(input: &Payload) -> Option<Call> {
    input.decode::<Arguments>().ok().map(|arguments| arguments.call)
}
