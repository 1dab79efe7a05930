//! A process of its own is killed with `SIGKILL` when an effect is durable, and started again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use aether::store::Store;
use aether_testing::crash::{CrashPoint, CrashStore};

use crate::kit::{Asked, Became, Declared, World, agent, complain, engine, support};

const URL: &str = "AETHER_RIG_URL";
const FILE: &str = "AETHER_RIG_FILE";
const WRITE: &str = "AETHER_RIG_WRITE";

/// The process: with a write to stop at, it says so there and does nothing more; without, it runs to the end.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Ok(file) = std::env::var(FILE) else { return };
    let url = std::env::var(URL).unwrap();
    let behind: Arc<dyn Store> = Arc::new(aether::sqlite::SqliteStore::open(file).unwrap());
    let point = std::env::var(WRITE).ok().map(|write| CrashPoint::After(write.parse().unwrap()));
    let crashing = Arc::new(CrashStore::new(behind, point));
    let store: Arc<dyn Store> = crashing.clone();
    let agents = aether::rig::RigAgents::new().with("support", agent(&url)).unwrap();
    let engine = engine(&store, agents).await;
    if point.is_some() {
        let whole = tokio::spawn(async move { complain(&engine, Declared::Not).await });
        tokio::select! {
            () = crashing.crashed() => println!("\nat the write"),
            // There are fewer writes: some travelled together.
            _ = whole => println!("\nat the end"),
        }
        return std::future::pending().await;
    }
    println!("\nbecame {}", serde_json::to_string(&complain(&engine, Declared::Not).await).unwrap());
    println!("\nwrites {}", crashing.writes());
}

fn process(world: &World, file: &Path, write: Option<u64>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::child", "--nocapture"]).stdout(Stdio::piped()).stdin(Stdio::null());
    command.env(URL, world.url()).env(FILE, file);
    if let Some(write) = write {
        command.env(WRITE, write.to_string());
    }
    command.spawn().unwrap()
}

/// What the process says behind `word`.
fn said(child: &mut Child, word: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
    for line in lines {
        if let Some(rest) = line.strip_prefix(word) {
            return rest.trim().to_owned();
        }
    }
    panic!("the process ended and did not say `{word}`");
}

/// Kills a process at `write`: whether there was such a write, what was asked for in all, and what became of it in the next
/// process.
fn killed_at(world: &World, write: u64) -> (bool, Asked, Became) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.db");
    let mut first = process(world, &file, Some(write));
    let in_it = said(&mut first, "at the ") == "write";
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = process(world, &file, None);
    let became = serde_json::from_str(&said(&mut second, "became ")).unwrap();
    second.wait().unwrap();
    (in_it, world.asked(), became)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_repeats_nothing_that_is_recorded() {
    let world = World::start(support()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.db");
    let mut whole = process(&world, &file, None);
    let expected: Became = serde_json::from_str(&said(&mut whole, "became ")).unwrap();
    whole.wait().unwrap();
    let undisturbed = world.asked();
    assert_eq!((undisturbed.questions(), undisturbed.calls("refund")), (3, 1));
    let mut ends = BTreeMap::<_, usize>::new();
    for write in 1.. {
        let world = World::start(support()).await;
        let killed = tokio::task::spawn_blocking(move || killed_at(&world, write));
        let (in_it, asked, became) = killed.await.unwrap();
        for tool in ["note", "refund"] {
            assert!(asked.calls(tool) <= 1, "write {write}: {asked:?}");
        }
        match became {
            Became::InDoubt(_) => *ends.entry("in doubt").or_default() += 1,
            became => {
                assert_eq!(became, expected, "write {write}");
                assert_eq!(asked.calls("note") + asked.calls("refund"), 2, "write {write}");
                // What the model and the reads had answered, and was not written yet, is asked for again.
                let more = asked.questions() - 3 + asked.calls("search") - 2;
                *ends.entry(if more == 0 { "as without a kill" } else { "asked again" }).or_default() += 1;
            }
        }
        if !in_it {
            break;
        }
    }
    println!("{ends:?}");
    assert!(ends.contains_key("as without a kill") && ends.contains_key("in doubt"), "{ends:?}");
}
