//! Rows 13 and 20, with real processes: this test program started again, with a test filter and a task in its
//! environment.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aether::effect::EffectClass;
use aether::id::{CommandId, IdempotencyKey, InvocationId, WorkerId};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether::store::event::{NodeStarted, RunRequeued, ToolInvocationStarted};
use aether::store::journal::{StoredFrame, read_verified};
use aether::store::ledger::Acquired;
use aether_core::payload::Digest;

use super::kit::{Hand, Journal, created, in_time, json, run_id};

/// What a started process is to do, and the folder it does it in.
const TASK: &str = "AETHER_SEEDS_TASK";
const FOLDER: &str = "AETHER_SEEDS_FOLDER";

/// Where bodies leave a line for each call, and whether the third waits for ever.
#[derive(Debug)]
struct Notes {
    file: PathBuf,
    hang: bool,
}

impl Notes {
    fn of(folder: &Path) -> Self {
        Self { file: folder.join("calls.txt"), hang: false }
    }

    fn add(&self, line: &str) -> Result<()> {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.file)?;
        // One write, so that lines of several processes do not mix.
        file.write_all(format!("{line}\n").as_bytes())?;
        Ok(())
    }

    fn lines(folder: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(folder.join("calls.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Leave a line. The third call hangs where it is told to.
#[step(effect = "tool", idempotent, on_unknown = "retry", timeout = "none")]
async fn leave(cx: &mut StepCx, n: u32) -> Result<String> {
    let notes = cx.dep::<Notes>()?;
    notes.add(cx.idempotency_key().as_str())?;
    if notes.hang && n == 3 {
        let store = cx.dep::<Arc<dyn Store>>()?;
        let last = store.last_frame(cx.run_id()).await?.ok_or_else(|| Failure::new("no frame"))?;
        println!("durable {} {}", last.position, hex(&last.chain));
        std::future::pending::<()>().await;
    }
    Ok(format!("{n} {}", cx.uuid()))
}

/// Leave five lines.
#[workflow]
async fn seed_lines(cx: &mut Cx) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for n in 1..=5 {
        left.push(leave(cx, n).await?);
    }
    Ok(left)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn database(folder: &Path) -> PathBuf {
    folder.join("agent.db")
}

async fn engine(folder: &Path, hang: bool) -> Engine {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(database(folder)).unwrap());
    let notes = Notes { hang, ..Notes::of(folder) };
    let poll = Duration::from_millis(10);
    Engine::builder()
        .store(store.clone())
        .provide(store)
        .provide(notes)
        .poll_interval(poll)
        .start()
        .await
        .unwrap()
}

/// This program once more, doing `task`.
fn process(task: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["seeds::processes::a_process_started_by_another_test_does_its_task", "--exact", "--nocapture"])
        .env(TASK, task)
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The first line of its output that begins with `word`, without that word.
fn told(child: &mut Child, word: &str) -> String {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines().map_while(std::result::Result::ok);
    // The test harness may print its own words on the same line.
    let found = lines.find_map(|line| line.split_once(&format!("{word} ")).map(|(_, rest)| rest.to_owned()));
    // A process whose output nobody reads dies of it.
    std::thread::spawn(move || lines.for_each(drop));
    found.unwrap_or_else(|| panic!("the process ended without a word of {word}"))
}

/// Runs where another test started this program; without a task there is nothing to do.
#[tokio::test]
async fn a_process_started_by_another_test_does_its_task() {
    let (Ok(task), Some(folder)) = (std::env::var(TASK), std::env::var_os(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    match task.as_str() {
        "hang" => {
            let engine = engine(&folder, true).await;
            let run = engine.start::<seed_lines>(()).id("lines").await.unwrap();
            run.result().await.unwrap();
        }
        "race" => {
            let engine = engine(&folder, false).await;
            let run = engine.start::<seed_lines>(()).id("lines").await.unwrap();
            println!("result {:?}", in_time(run.result()).await.unwrap());
        }
        "acquire" => println!("acquired {}", acquire(&folder).await),
        other => panic!("unknown task {other}"),
    }
}

/// Asks for one and the same key, from a run of this process's own.
async fn acquire(folder: &Path) -> bool {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(database(folder)).unwrap());
    let own = format!("process-{}", std::process::id());
    let mut hand = Hand::begin(&store, &own, "elsewhere", "null").await;
    let (command, shared) = (CommandId::new("0", "pay"), run_id("shared"));
    let (invocation, key) = (InvocationId::new(&command, 0), IdempotencyKey::new(&shared, &command, 0));
    let digest = Digest::of(&json("null")).unwrap();
    let class = EffectClass::Tool;
    let node = NodeStarted {
        path: None,
        command: command.clone(),
        class,
        digest,
        input: None,
        site: None,
        constraints: Default::default(),
    };
    let started =
        ToolInvocationStarted { command, invocation, tool: "pay".into(), attempt: 0, key, reserved: None };
    let journal =
        Journal { run: own.clone(), events: vec![created("elsewhere", "null"), node.into(), started.into()] };
    let mut acquire = journal.acquire(&journal.events[2]).unwrap();
    let taken = RunRequeued { worker: WorkerId::from(own), reason: "taken".into() };
    acquire.otherwise = aether::store::journal::Frame::encode(&[taken.into()]).unwrap();
    // Everybody is there before anybody asks.
    std::fs::write(folder.join(format!("ready-{}", std::process::id())), "").unwrap();
    while !folder.join("go").exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let receipt = hand.append(&journal.events[2..], Some(acquire), Vec::new()).await;
    matches!(receipt.acquired, Acquired::Granted)
}

fn last_at(frames: &[StoredFrame], position: u64) -> Option<&StoredFrame> {
    frames.iter().find(|frame| frame.position == position)
}

#[tokio::test]
async fn s013_after_an_append_has_returned_a_kill_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = process("hang", folder.path());
    let durable = told(&mut child, "durable");
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    let (position, chain) = durable.split_once(' ').unwrap();

    let store = SqliteStore::open(database(folder.path())).unwrap();
    let frames = store.load(&run_id("lines"), 0).await.unwrap();
    let last = last_at(&frames, position.parse().unwrap()).expect("the frame that was durable is there");
    assert_eq!(hex(&last.chain), chain, "and nothing before it has changed");
    let before = read_verified(&frames).unwrap();
    assert_eq!(before.iter().filter(|event| event.kind() == "step_committed").count(), 2);
    drop(store);
    let called = Notes::lines(folder.path());
    assert_eq!(called.len(), 3);

    let engine = engine(folder.path(), false).await;
    let run = engine.handle::<seed_lines>("lines").await.unwrap();
    let result = in_time(run.result()).await.unwrap();
    assert_eq!(result.len(), 5);
    let calls = Notes::lines(folder.path());
    let key = |n: u32| format!("aether:lines:{}:leave:0", n - 1);
    assert_eq!(calls, [1, 2, 3, 3, 4, 5].map(key), "only what was in flight is sent again, under its key");
    let after = read_verified(&engine.store().load(run.id(), 0).await.unwrap()).unwrap();
    assert_eq!(after[..before.len()], before);
}

#[tokio::test]
async fn s020_two_processes_race_for_one_run_and_each_step_is_called_once() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(database(folder.path())).unwrap());
    let mut children: Vec<_> = (0..3).map(|_| process("race", folder.path())).collect();
    let results: Vec<_> = children.iter_mut().map(|child| told(child, "result")).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert!(results.iter().all(|result| result == &results[0]), "{results:?}");
    let key = |n: u32| format!("aether:lines:{}:leave:0", n - 1);
    assert_eq!(Notes::lines(folder.path()), [1, 2, 3, 4, 5].map(key));
}

#[tokio::test]
async fn s020_of_many_processes_that_ask_for_one_key_one_may_execute() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(database(folder.path())).unwrap());
    let mut children: Vec<_> = (0..4).map(|_| process("acquire", folder.path())).collect();
    let ready = || std::fs::read_dir(folder.path()).unwrap().filter_map(std::result::Result::ok);
    let waits = || ready().filter(|entry| entry.file_name().to_string_lossy().starts_with("ready-")).count();
    in_time(async {
        while waits() < children.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    let mut granted: Vec<_> = children.iter_mut().map(|child| told(child, "acquired")).collect();
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    granted.sort_unstable();
    assert_eq!(granted, ["false", "false", "false", "true"]);
}
