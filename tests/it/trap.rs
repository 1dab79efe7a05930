//! The trap on the simulation: what it catches from std, tokio and uuid, what it lets pass, and what it says.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use aether::prelude::*;
use aether_testing::{Comparison, Sim, SimError, Trap, TrapHit, TrapKind};

/// A step before and after the act.
#[step(effect = "read")]
async fn look(_cx: &mut StepCx, at: u32) -> Result<u32> {
    Ok(at + perform("read by a body") as u32)
}

/// Does what its input says, in a function that the macro cannot see.
#[workflow]
async fn act(cx: &mut Cx, deed: String) -> Result<u64> {
    let first = look(cx, 1).await?;
    let value = perform(&deed);
    let second = look(cx, 2).await?;
    Ok(value + u64::from(first + second))
}

fn perform(deed: &str) -> u64 {
    match deed {
        "nothing" => 0,
        "read by a body" => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs() / u64::MAX),
        "SystemTime::now" => SystemTime::now().elapsed().map_or(0, |d| d.as_secs()),
        "Instant::now" => Instant::now().elapsed().as_secs(),
        "jiff::Timestamp::now" => jiff::Timestamp::now().as_second().unsigned_abs(),
        "Uuid::new_v4" => u64::from(uuid::Uuid::new_v4().as_bytes()[0]),
        "Uuid::now_v7" => u64::from(uuid::Uuid::now_v7().as_bytes()[0]),
        "env::var" => std::env::var("HOME").map_or(0, |home| home.len() as u64),
        "env::current_dir" => std::env::current_dir().map_or(0, |dir| dir.as_os_str().len() as u64),
        "env::current_exe" => std::env::current_exe().map_or(0, |dir| dir.as_os_str().len() as u64),
        "fs::read" => std::fs::read("/etc/hostname").map_or(0, |bytes| bytes.len() as u64),
        "fs::read_dir" => std::fs::read_dir("/").map_or(0, |dir| dir.count() as u64),
        "Path::exists" => u64::from(Path::new("/etc/hostname").exists()),
        "TcpStream::connect" => u64::from(std::net::TcpStream::connect("127.0.0.1:9").is_ok()),
        "UdpSocket::bind" => u64::from(std::net::UdpSocket::bind("127.0.0.1:0").is_ok()),
        "to_socket_addrs" => {
            std::net::ToSocketAddrs::to_socket_addrs("localhost:1").map_or(0, |found| found.count() as u64)
        }
        "Command::spawn" => u64::from(std::process::Command::new("/bin/true").status().is_ok()),
        "process::id" => u64::from(std::process::id()),
        "available_parallelism" => std::thread::available_parallelism().map_or(0, |n| n.get() as u64),
        "thread::spawn" => std::thread::spawn(|| 1).join().unwrap_or(0),
        "thread::sleep" => {
            std::thread::sleep(Duration::from_millis(1));
            0
        }
        "tokio TcpListener" => {
            let bound = tokio::net::TcpListener::bind("127.0.0.1:0");
            let mut bound = Box::pin(bound);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            u64::from(std::future::Future::poll(bound.as_mut(), &mut context).is_ready())
        }
        "spawn_blocking" => {
            drop(tokio::task::spawn_blocking(|| 0));
            0
        }
        "hash order" => {
            let map: HashMap<u32, u64> = (0..64).map(|key| (key, u64::from(key))).collect();
            map.into_values().next().unwrap_or(0)
        }
        "thread id" => {
            let id = format!("{:?}", std::thread::current().id());
            id.bytes().fold(0, |sum, byte| (sum * 31 + u64::from(byte)) % 1_000_003)
        }
        "static" => {
            static CALLS: AtomicU64 = AtomicU64::new(0);
            CALLS.fetch_add(1, Ordering::Relaxed)
        }
        "thread-local" => {
            thread_local! { static CALLS: Cell<u64> = const { Cell::new(0) }; }
            CALLS.replace(CALLS.get() + 1)
        }
        "heap address" => std::ptr::from_ref(&*Box::new(7_u64)).addr() as u64 % 1_000_003,
        "HashMap" => HashMap::from([(1, 2)]).len() as u64,
        "tracing" => {
            tracing::warn!(deed, "logged");
            0
        }
        "panic" => panic!("as asked"),
        other => unreachable!("{other}"),
    }
}

async fn caught(deed: &str) -> Option<TrapHit> {
    let sim = Sim::new::<act>().real::<look>();
    match sim.try_run(deed.into()).await {
        Ok(report) => {
            assert!(report.trapped.is_empty());
            None
        }
        Err(SimError::Trapped(hit)) => Some(*hit),
        Err(other) => panic!("{deed}: {other}"),
    }
}

#[tokio::test]
async fn every_kind_of_call_is_caught_from_std_tokio_and_libraries() {
    let calls = [
        ("SystemTime::now", TrapKind::Clock),
        ("Instant::now", TrapKind::Clock),
        ("jiff::Timestamp::now", TrapKind::Clock),
        ("Uuid::new_v4", TrapKind::Entropy),
        ("Uuid::now_v7", TrapKind::Clock),
        ("env::var", TrapKind::Environment),
        ("env::current_dir", TrapKind::Files),
        ("env::current_exe", TrapKind::Files),
        ("fs::read", TrapKind::Files),
        ("fs::read_dir", TrapKind::Files),
        ("Path::exists", TrapKind::Files),
        ("TcpStream::connect", TrapKind::Network),
        ("UdpSocket::bind", TrapKind::Network),
        ("to_socket_addrs", TrapKind::Network),
        ("Command::spawn", TrapKind::Process),
        ("process::id", TrapKind::Process),
        ("available_parallelism", TrapKind::Files),
        ("thread::spawn", TrapKind::Threads),
        ("thread::sleep", TrapKind::Waiting),
        ("tokio TcpListener", TrapKind::Network),
        ("spawn_blocking", TrapKind::Threads),
    ];
    let mut wrong = Vec::new();
    for (deed, kind) in calls {
        let hit = caught(deed).await;
        if hit.as_ref().map(|hit| hit.kind) != Some(kind) {
            wrong.push((deed, hit));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a member is where the record does not hold it.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Opened {
    item: u64,
    #[serde(skip, default = "SystemTime::now")]
    #[allow(dead_code, reason = "to be decoded is all it is for")]
    at: SystemTime,
}

/// Passes on what it is given.
#[workflow]
async fn pass_on(_cx: &mut Cx, opened: Opened) -> Result<Opened> {
    Ok(opened)
}

/// Asks for something that is read with a default.
#[workflow]
async fn ask_for(cx: &mut Cx, item: u64) -> Result<u64> {
    let opened = open(cx, item).await?;
    Ok(opened.item)
}

#[step(effect = "read")]
async fn open(_cx: &mut StepCx, item: u64) -> Result<Opened> {
    Ok(Opened { item, at: SystemTime::UNIX_EPOCH })
}

#[tokio::test]
async fn a_default_that_is_drawn_while_an_input_or_an_answer_is_decoded_is_caught() {
    let input = Opened { item: 1, at: SystemTime::UNIX_EPOCH };
    let input = Sim::new::<pass_on>().try_run(input).await.map(drop);
    let answer = Sim::new::<ask_for>().real::<open>().try_run(1).await.map(drop);
    for end in [input, answer] {
        let Err(SimError::Trapped(hit)) = end else { panic!("{end:?}") };
        assert_eq!(hit.kind, TrapKind::Clock);
        assert_eq!(hit.run.as_ref().map(|run| run.as_str()), Some("sim"));
    }
}

#[tokio::test]
async fn what_does_not_come_back_to_the_workflow_is_not_caught() {
    let _alone_in_this_program = tracing::subscriber::set_global_default(Log);
    for deed in ["nothing", "HashMap", "tracing", "panic"] {
        assert_eq!(caught(deed).await, None, "{deed}");
    }
}

/// A subscriber that does what logging does: reads the clock, and opens a file.
struct Log;

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        assert!(SystemTime::now() > SystemTime::UNIX_EPOCH);
        assert!(std::fs::File::open("/dev/null").is_ok());
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn s070_strict_stops_with_run_and_step_at_the_forbidden_call() {
    let Some(hit) = caught("SystemTime::now").await else { panic!("not caught") };
    assert_eq!(hit.function, "clock_gettime");
    assert_eq!(hit.run.as_ref().map(|run| run.as_str()), Some("sim"));
    assert_eq!(hit.after.as_ref().map(|command| command.as_str()), Some("0:look"));
    let line = hit.backtrace.iter().find(|line| line.contains("perform"));
    let Some(line) = line else { panic!("{hit}") };
    // Lines are known where the program has debug information.
    assert!(line.contains("tests/it/trap.rs:") || !cfg!(debug_assertions), "{hit}");
    assert!(hit.to_string().contains("cx.now().await"), "{hit}");
    // Nothing of the run came after the call.
    let Err(SimError::Trapped(_)) =
        Sim::new::<act>().stub_seq::<look>(vec![Ok(1)]).try_run("SystemTime::now".into()).await
    else {
        panic!("the second step was called")
    };
}

#[tokio::test]
async fn s070_non_strict_warns_and_goes_on() {
    let sim = Sim::new::<act>().real::<look>();
    let report = sim.trap(Trap::warn()).run("SystemTime::now".into()).await;
    assert_eq!(report.assert_completed(), &3);
    // Once for `now`, and once for `elapsed`.
    let doors: Vec<_> = report.trapped.iter().map(|hit| hit.kind).collect();
    assert_eq!(doors, [TrapKind::Clock, TrapKind::Clock], "{:?}", report.trapped);
    let told = report.trapped[0].to_string();
    assert!(told.contains("`cx.now().await`") && told.contains("`engine.watch()`"), "{told}");
}

#[tokio::test]
async fn a_named_frame_passes_and_an_open_trap_catches_nothing() {
    let sim = Sim::new::<act>().real::<look>().trap(Trap::strict().allow("perform"));
    assert_eq!(sim.run("Instant::now".into()).await.assert_completed(), &3);
    let sim = Sim::new::<act>().real::<look>().trap(Trap::off());
    let report = sim.run("Instant::now".into()).await;
    assert!(report.assert_completed() == &3 && report.trapped.is_empty());
}

#[tokio::test]
#[should_panic(expected = "trap: `clock_gettime` called in workflow code: it read the clock (run `sim`")]
async fn a_caught_call_panics_out_of_run() {
    Sim::new::<act>().real::<look>().run("SystemTime::now".into()).await;
}

async fn apart(deed: &str) -> Option<Comparison> {
    let sim = Sim::new::<act>().stub::<look>(Ok).trap(Trap::off());
    match sim.try_check_deterministic(deed.into()).await {
        Ok(report) => {
            report.assert_completed();
            None
        }
        Err(SimError::Nondeterministic { between, .. }) => Some(between),
        Err(other) => panic!("{deed}: {other}"),
    }
}

#[tokio::test]
async fn the_double_run_finds_what_the_trap_cannot_see() {
    let deeds = [
        "hash order",
        "thread id",
        "static",
        "thread-local",
        "heap address",
        "env::var",
        "process::id",
        "jiff::Timestamp::now",
        "Uuid::new_v4",
    ];
    let mut unseen = Vec::new();
    for deed in deeds {
        if apart(deed).await.is_none() {
            unseen.push(deed);
        }
    }
    assert!(unseen.is_empty(), "{unseen:?}");
    assert_eq!(apart("nothing").await, None);
}

#[tokio::test]
async fn the_double_run_of_a_deterministic_workflow_says_nothing() {
    // Stubs may count: in the second run they answer what they answered in the first.
    let calls = AtomicU64::new(0);
    let sim = Sim::new::<act>().stub::<look>(move |_| Ok(calls.fetch_add(1, Ordering::Relaxed) as u32));
    assert_eq!(sim.check_deterministic("nothing".into()).await.assert_completed(), &1);
}

#[tokio::test]
async fn a_double_run_names_both_sides() {
    let sim = Sim::new::<act>().stub::<look>(Ok);
    let Err(error) = sim.try_check_deterministic("static".into()).await else { panic!("not found") };
    let text = error.to_string();
    for part in [
        "first:  run_completed result=",
        "second: run_completed result=",
        "after `1:look` at tests/it/trap.rs:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[step(effect = "tool")]
async fn file_claim(_cx: &mut StepCx, number: u64, tags: Vec<String>) -> Result<u64> {
    Ok(number + tags.len() as u64)
}

/// The order of a hash map, which no lint sees in a helper.
fn listed() -> Vec<String> {
    let tags: std::collections::HashMap<String, u64> = (0..32).map(|n| (format!("tag {n}"), n)).collect();
    tags.into_keys().collect()
}

#[workflow]
async fn claim(cx: &mut Cx) -> Result<u64> {
    Ok(file_claim(cx, 7, listed()).await?)
}

#[tokio::test]
async fn the_double_run_names_the_field_whose_elements_have_another_order() {
    let sim = Sim::new::<claim>().stub::<file_claim>(|(number, _)| Ok(number));
    let Err(error) = sim.try_check_deterministic(()).await else { panic!("not found") };
    let text = error.to_string();
    assert!(text.contains("order:  `tags` holds the same in another order"), "{text}");
}

/// Work that is left after some of it was told.
struct Queue(Vec<u64>);

impl Queue {
    /// Changes the queue, which no lint sees.
    fn told(&mut self) -> Option<u64> {
        self.0.pop()
    }
}

#[workflow(macros(enabled))]
async fn tell(_cx: &mut Cx, told: (String, Vec<u64>)) -> Result<usize> {
    let (how, jobs) = told;
    let mut queue = Queue(jobs);
    match how.as_str() {
        "line" => tracing::trace!(job = ?queue.told(), "left out"),
        "span" => drop(tracing::error_span!("job", first = ?queue.told())),
        "level" if tracing::enabled!(tracing::Level::INFO) => drop(queue.told()),
        _ => tracing::error!(left = queue.0.len(), "only looked at"),
    }
    Ok(queue.0.len())
}

#[tokio::test]
async fn the_double_run_sees_what_the_arguments_of_a_log_change() {
    let found = async |how: &str| {
        let outcome = Sim::new::<tell>().try_check_deterministic((how.into(), vec![1, 2, 3])).await;
        match outcome {
            Ok(_) => false,
            Err(SimError::Nondeterministic { .. }) => true,
            Err(other) => panic!("{how}: {other}"),
        }
    };
    for how in ["line", "span", "level"] {
        assert!(found(how).await, "{how}");
    }
    assert!(!found("value").await);
}
