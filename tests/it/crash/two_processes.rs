//! Two worker processes on one SQLite file, or one Postgres, of which one is killed and started again all the time.
//!
//! In a normal test run this takes some seconds. `AETHER_TWO_PROCESSES=full` (see `scripts/two-processes`) executes
//! 1,000 runs while a process is killed every 200 ms for 30 s.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aether::prelude::*;
use aether::store::event::{Event, InvocationDecision};
use aether::store::ledger::LedgerEntry;
use aether::store::{RunFilter, Store};

use super::bookings;
use super::interpret::interpret;
use super::judge::judge;
use super::lives::{Address, DEAD, Keeping, Lived, journals, runtime};
use super::model::Facts;
use super::program::{Block, Call, Node, Part, Word};
use super::stage::{Deeds, Life, Stage};
use super::steps::Kind;
use crate::postgres::way::Way;

const FOLDER: &str = "AETHER_WORKER_FOLDER";
/// URL of the database; without it the runs are in a file of the folder.
const SERVER: &str = "AETHER_WORKER_SERVER";
/// Number of this worker's first run, of all runs, and milliseconds between the starts of two.
const RUNS: &str = "AETHER_WORKER_RUNS";

/// How long the runs may take once nobody is killed any more.
const PATIENCE: Duration = Duration::from_secs(300);

/// Kills that are made however long they take.
const FEWEST_KILLS: usize = 6;

/// How much is done.
#[derive(Clone, Copy, Debug)]
struct Plan {
    runs: usize,
    killing: Duration,
    between_kills: Duration,
}

impl Plan {
    fn chosen() -> Self {
        let between_kills = Duration::from_millis(200);
        match std::env::var("AETHER_TWO_PROCESSES").as_deref() {
            Ok("full") => Self { runs: 1000, killing: Duration::from_secs(30), between_kills },
            _ => Self { runs: 80, killing: Duration::from_secs(3), between_kills },
        }
    }
}

/// What every run does.
fn program() -> Block {
    let call = |id, kind| {
        Node::Call(Call {
            id,
            salt: 0,
            kind,
            script: Vec::new(),
            again: Vec::new(),
            word: Word::Truth,
            strict: false,
        })
    };
    vec![
        call(1, Kind::Read),
        Node::Join(vec![call(2, Kind::ToolRetry)], vec![call(3, Kind::ToolProbe)]),
        Node::Sleep(20),
        call(4, Kind::Llm),
        call(5, Kind::Tool),
        call(8, Kind::Booked),
        Node::Child(vec![call(6, Kind::ExternalRetry), Node::Uuid]),
        call(7, Kind::HttpProbe),
    ]
}

fn name(number: usize) -> String {
    format!("errand-{number}")
}

/// Where the runs of this process are.
fn address(folder: &Path) -> Address {
    match std::env::var(SERVER) {
        Ok(url) => Address::Server(Way::chosen(), url),
        Err(_) => Address::File(folder.join("case.db")),
    }
}

/// Runs where the test below started this program; without a folder there is nothing to do.
#[test]
fn a_worker_process_starts_its_runs_and_works_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let runs = std::env::var(RUNS).unwrap();
    let mut runs = runs.split(' ').map(|number| number.parse().unwrap());
    let (first, all, pause) = (runs.next().unwrap(), runs.next().unwrap(), runs.next().unwrap());
    runtime(Keeping::Sqlite).block_on(work(&folder, first, all, Duration::from_millis(pause as u64)));
}

async fn work(folder: &Path, first: usize, all: usize, pause: Duration) {
    let stage = Stage::on(&folder.join("deeds"));
    let tempo = u64::from(std::process::id());
    let address = address(folder);
    let on_server = matches!(address, Address::Server(..));
    stage.begin(Life { store: None, death: None, tempo, unit: 5, bodies: 0, on_server });
    let poll = Duration::from_millis(20);
    let builder = Engine::builder().store(address.open().await.unwrap()).provide(stage).poll_interval(poll);
    let builder = if on_server { builder.lease(DEAD) } else { builder };
    let engine = builder.start().await.unwrap();
    // What was acknowledged to a former process of this worker is not asked for again.
    for number in (started(folder, first)..all).step_by(2) {
        let part = Part { block: program(), salt: 0, unit: 1 };
        engine.start::<interpret>(part).id(name(number)).await.unwrap();
        replace(&acknowledgements(folder, first), &(number + 2).to_string());
        tokio::time::sleep(pause).await;
    }
    std::future::pending().await
}

fn acknowledgements(folder: &Path, first: usize) -> PathBuf {
    folder.join(format!("started-{first}"))
}

/// The number of the next run that a worker has to start.
fn started(folder: &Path, first: usize) -> usize {
    std::fs::read_to_string(acknowledgements(folder, first)).map_or(first, |number| number.parse().unwrap())
}

/// Waits until the worker that is killed has started a run more than `before`: on a busy machine a process may need
/// longer to begin than it is given to live.
fn await_start(folder: &Path, before: usize, plan: Plan) {
    let began = Instant::now();
    while started(folder, 1) == before && before < plan.runs && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a file that is whole at every instant.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// A worker that starts every second run.
fn worker(folder: &Path, address: &Address, first: usize, plan: Plan) -> Child {
    // Both workers are done with starting shortly before the last kill.
    let pause = plan.killing.as_millis() * 3 / 2 / plan.runs as u128;
    let mut command = Command::new(std::env::current_exe().unwrap());
    if let Address::Server(_, url) = address {
        command.env(SERVER, url);
    }
    command
        .args([
            "crash::two_processes::a_worker_process_starts_its_runs_and_works_until_it_is_killed",
            "--exact",
        ])
        .env(FOLDER, folder)
        .env(RUNS, format!("{first} {} {pause}", plan.runs))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What happened.
#[derive(Debug, Default)]
struct Figures {
    runs: usize,
    completed: usize,
    kills: usize,
    takeovers: usize,
    calls: u32,
    repeated_reads: u32,
    repeated_sends: u32,
    in_doubt: usize,
    probed: usize,
    violations: Vec<String>,
    took: Duration,
}

impl Figures {
    fn print(&self) {
        println!("runs of two processes, one of them killed again and again:");
        let rows = [
            ("runs started", self.runs),
            ("runs completed", self.completed),
            ("kills (SIGKILL)", self.kills),
            ("takeovers of a run", self.takeovers),
            ("calls of bodies", self.calls as usize),
            ("repeated calls of reads, models and transactions", self.repeated_reads as usize),
            ("repeated calls of tools, under the same key", self.repeated_sends as usize),
            ("calls decided by a probe", self.probed),
            ("calls in doubt", self.in_doubt),
            ("violations", self.violations.len()),
        ];
        rows.iter().for_each(|(what, number)| println!("  {what:<44} {number:>7}"));
        println!("  {:<44} {:>5.1} s", "duration", self.took.as_secs_f64());
    }
}

/// Kills one of two workers all the time, and waits for the end of all runs.
fn kill_and_wait(folder: &Path, address: &Address, plan: Plan) -> usize {
    let steady = worker(folder, address, 0, plan);
    let mut killed = worker(folder, address, 1, plan);
    let (began, mut kills, mut acknowledged) = (Instant::now(), 0, started(folder, 1));
    while began.elapsed() < plan.killing || kills < FEWEST_KILLS {
        std::thread::sleep(plan.between_kills);
        await_start(folder, acknowledged, plan);
        acknowledged = started(folder, 1);
        assert!(killed.try_wait().unwrap().is_none(), "a worker ended by itself");
        killed.kill().unwrap();
        killed.wait().unwrap();
        kills += 1;
        killed = worker(folder, address, 1, plan);
    }
    let ended = Instant::now();
    let runtime = runtime(Keeping::Sqlite);
    let open = runtime.block_on(address.open()).unwrap();
    while runtime.block_on(unfinished(&*open, plan)) && ended.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    for mut worker in [steady, killed] {
        assert!(worker.try_wait().unwrap().is_none(), "a worker ended by itself");
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    kills
}

async fn unfinished(store: &dyn Store, plan: Plan) -> bool {
    let runs = store.runs(RunFilter::default()).await.unwrap();
    let ended = runs.iter().filter(|run| run.parent.is_none() && run.status.is_terminal()).count();
    ended < plan.runs
}

/// Reads what is left, and holds every run against the model.
async fn figures(folder: &Path, address: &Address, plan: Plan) -> Figures {
    let store = address.open().await.unwrap();
    let mut journals = journals(&*store).await.unwrap();
    let mut deeds = Stage::on(&folder.join("deeds")).deeds();
    bookings::add(address, &mut deeds).unwrap();
    let mut figures = Figures::default();
    for number in 0..plan.runs {
        let run = name(number);
        let family = |of: &str| of == run || of.strip_prefix(&run).is_some_and(|rest| rest.starts_with('/'));
        let own: Vec<String> = journals.keys().filter(|of| family(of)).cloned().collect();
        let own: BTreeMap<_, _> = own.into_iter().filter_map(|of| journals.remove_entry(&of)).collect();
        let mut ledger = Vec::new();
        for of in own.keys() {
            ledger.extend(store.entries(&aether::id::RunId::new(of.as_str()).unwrap()).await.unwrap());
        }
        figures.runs += usize::from(own.contains_key(&run));
        let prefix = format!("aether:{run}");
        let of_run = |key: &str| key.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with([':', '/']));
        let deeds =
            deeds.iter().filter(|(key, _)| of_run(key)).map(|(key, deeds)| (key.clone(), *deeds)).collect();
        one_run(&run, own, ledger, deeds, &mut figures);
    }
    figures
}

fn one_run(
    run: &str,
    journals: BTreeMap<String, Vec<Event>>,
    ledger: Vec<LedgerEntry>,
    deeds: BTreeMap<String, Deeds>,
    figures: &mut Figures,
) {
    let events = || journals.values().flatten();
    figures.takeovers += events().filter(|event| matches!(event, Event::RunRequeued(_))).count();
    let result = match journals.get(run).and_then(|events| events.last()) {
        Some(Event::RunCompleted(e)) => Ok(e.result.decode().unwrap()),
        other => return figures.violations.push(format!("{run} did not complete: {other:?}")),
    };
    figures.completed += 1;
    for (key, deeds) in &deeds {
        let kind = key.rsplit(':').nth(1).and_then(Kind::named).unwrap();
        figures.calls += deeds.calls;
        let repeated =
            if kind.changes_world() { &mut figures.repeated_sends } else { &mut figures.repeated_reads };
        *repeated += deeds.calls - 1;
    }
    let (cut, faults, shown) = Default::default();
    let (crashes, writes, effects, bodies) = (0, 0, 0, 0);
    let mut lived =
        Lived { result, journals, ledger, cut, deeds, crashes, writes, effects, bodies, faults, shown };
    let facts = Facts::of(&lived);
    for decision in facts.decisions.values().flatten() {
        match decision {
            InvocationDecision::InDoubt => figures.in_doubt += 1,
            InvocationDecision::Happened | InvocationDecision::DidNotHappen => figures.probed += 1,
            InvocationDecision::Retry | InvocationDecision::Ask => {}
        }
    }
    // Nobody saw where the process was when it was killed: every decision may have had its reason.
    lived.cut = facts.decisions.into_keys().collect();
    if let Err(broken) = judge(run, &program(), &lived) {
        figures.violations.push(format!("{run}: {broken}"));
    }
}

fn prove(keeping: Keeping) {
    let (plan, began) = (Plan::chosen(), Instant::now());
    let folder = tempfile::tempdir().unwrap();
    let (address, _database) = Address::make(keeping, folder.path());
    runtime(keeping).block_on(async { address.open().await.unwrap().close().await.unwrap() });
    let kills = kill_and_wait(folder.path(), &address, plan);
    let figures = runtime(keeping).block_on(figures(folder.path(), &address, plan));
    let figures = Figures { kills, took: began.elapsed(), ..figures };
    figures.print();
    assert!(figures.violations.is_empty(), "{:#?}", figures.violations);
    assert_eq!((figures.runs, figures.completed), (plan.runs, plan.runs));
    assert!(figures.kills >= FEWEST_KILLS && figures.takeovers > 0, "{figures:?}");
}

#[test]
fn no_run_of_two_processes_is_lost_or_run_twice_when_one_is_killed_again_and_again() {
    prove(Keeping::Sqlite);
}

#[test]
fn no_run_of_two_processes_on_postgres_is_lost_or_run_twice_when_one_is_killed_again_and_again() {
    prove(Keeping::Postgres(Way::chosen()));
}
