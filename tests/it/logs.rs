//! What a program and the engine log through `tracing`: once per run, with the run's id, whatever was replayed.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::prelude::*;
use aether::store::Store;
use aether_core::store::memory::MemoryStore;
use aether_testing::crash::{CrashPoint, CrashStore};
use serde_json::Value;
use tokio::time::timeout;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::EnvFilter;

use crate::seeds::kit::{eager_engine, until_waiting};

/// The lines of a subscriber that writes JSON, as a program in production has it.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Listens on this thread, on which the test's runtime runs everything but the store's writer.
    fn listen(filter: &str) -> (Self, DefaultGuard) {
        let (lines, filter) = (Self::default(), EnvFilter::new(filter));
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_env_filter(filter)
            .with_writer(move || writer.clone())
            .finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    fn all(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The messages of the workflows and steps of this file.
    fn own(&self) -> Vec<String> {
        self.of(|target| target.ends_with("logs"))
    }

    fn of(&self, target: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = self.all();
        lines.retain(|line| target(line["target"].as_str().unwrap()));
        lines.iter().map(message).collect()
    }

    /// The lines with this message.
    fn saying(&self, said: &str) -> Vec<Value> {
        self.all().into_iter().filter(|line| message(line) == said).collect()
    }
}

fn message(line: &Value) -> String {
    line["fields"]["message"].as_str().unwrap().to_owned()
}

/// What the spans around a line say under `field`.
fn in_spans(line: &Value, field: &str) -> Vec<Value> {
    let spans = line["spans"].as_array().unwrap();
    spans.iter().filter_map(|span| span.get(field).cloned()).collect()
}

const LONG: Duration = Duration::from_secs(3_600);

/// Look a price up.
#[step(effect = "read")]
async fn price(_cx: &mut StepCx, item: &str) -> Result<u32> {
    tracing::info!(item, "pricing");
    Ok(u32::try_from(item.len())?)
}

/// Add.
#[step(effect = "pure")]
async fn add(a: u32, b: u32) -> Result<u32> {
    tracing::info!("adding");
    Ok(a + b)
}

fn helper(said: &str) {
    let _span = tracing::info_span!("helper").entered();
    tracing::info!("{said}");
}

#[workflow]
async fn order(cx: &mut Cx, item: String) -> Result<u32> {
    tracing::info!("accepted");
    let price = price(cx, &item).await?;
    helper("priced");
    let sum = add(cx, price, 1).await?;
    tracing::info!("waiting");
    let paid: u32 = cx.signal("paid").await?;
    helper("paid");
    let sum = add(cx, sum, paid).await?;
    tracing::info!("done");
    Ok(sum)
}

#[tokio::test]
async fn a_line_of_workflow_code_is_written_once_however_often_the_run_is_resumed() {
    let (lines, _guard) = Lines::listen("info");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let first = eager_engine(&path).await;
    until_waiting(&first.start::<order>("pen".into()).id("r").await.unwrap()).await;
    for _ in 0..2 {
        // A message that no wait takes makes the run replay, and wait again.
        first.signal(&"r".parse().unwrap(), "other", "", &1).await.unwrap();
        until_waiting(&first.handle::<order>("r").await.unwrap()).await;
    }
    first.shutdown().await.unwrap();
    let before = ["accepted", "pricing", "priced", "adding", "waiting"];
    assert_eq!(lines.own(), before);

    let second = eager_engine(&path).await;
    let run = second.handle::<order>("r").await.unwrap();
    second.signal(run.id(), "paid", "a", &5).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 9);
    let all = [&before[..], &["paid", "adding", "done"]].concat();
    assert_eq!(lines.own(), all);
    assert!(!lines.saying("run resumed").is_empty());

    second.verify(run.id()).await.unwrap();
    assert_eq!(lines.own(), all, "a verification logs nothing of the workflow");
}

#[workflow]
async fn branches(cx: &mut Cx) -> Result<()> {
    let item = async |cx: &mut Cx, n: u32| -> Result<()> {
        tracing::info!("item {n} begins");
        price(cx, "pen").await?;
        tracing::info!("item {n} has its price");
        if n == 1 {
            let _: u32 = cx.signal("paid").await?;
            tracing::info!("item {n} is paid");
        }
        Ok(())
    };
    let (left, items) = cx
        .join((
            async |cx: &mut Cx| {
                price(cx, "ink").await?;
                tracing::info!("left is done");
                Ok::<_, Failure>(())
            },
            async |cx: &mut Cx| {
                for done in cx.each(0..3, item).limit(2).await {
                    done?;
                }
                tracing::info!("items are done");
                Ok::<_, Failure>(())
            },
        ))
        .await;
    tracing::info!("joined");
    left.and(items)
}

#[tokio::test]
async fn each_branch_has_its_own_frontier() {
    let (lines, _guard) = Lines::listen("info");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let first = eager_engine(&path).await;
    until_waiting(&first.start::<branches>(()).id("r").await.unwrap()).await;
    first.shutdown().await.unwrap();
    let own = |lines: &Lines| {
        let mut own = lines.own();
        own.retain(|line| line != "pricing");
        own
    };
    let mut before = own(&lines);
    assert_eq!(before.len(), 7, "{before:?}");

    let second = eager_engine(&path).await;
    let run = second.handle::<branches>("r").await.unwrap();
    second.signal(run.id(), "paid", "a", &5).await.unwrap();
    run.result().await.unwrap();
    before.extend(["item 1 is paid", "items are done", "joined"].map(String::from));
    assert_eq!(own(&lines), before);
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// Succeed the third time.
#[step(effect = "tool", idempotent, retry(max_retries = 3, delay = "1ms"))]
async fn flaky(_cx: &mut StepCx) -> Result<()> {
    tracing::info!("trying");
    match CALLS.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Err(Failure::retryable("the line is busy")),
        _ => Ok(()),
    }
}

#[workflow]
async fn patient(cx: &mut Cx) -> Result<()> {
    flaky(cx).await?;
    tracing::info!("got through");
    Ok(())
}

#[tokio::test]
async fn a_retry_is_told_with_its_error_and_every_line_of_a_body_names_run_step_and_attempt() {
    let (lines, _guard) = Lines::listen("info");
    let engine = Engine::builder().memory().start().await.unwrap();
    engine.start::<patient>(()).id("r").await.unwrap().result().await.unwrap();
    let retried = lines.saying("an attempt failed; another one is due");
    let told: Vec<_> = retried.iter().map(|line| &line["fields"]).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    for (number, told) in told.iter().enumerate() {
        assert_eq!(told["run"], "r");
        assert_eq!(told["command"], "0:flaky");
        assert_eq!(told["attempt"], number);
        assert_eq!(told["error"], "the line is busy");
        assert!(told["next_at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(retried[number]["level"], "WARN");
    }
    let tries = lines.saying("trying");
    assert_eq!(tries.len(), 3);
    for (attempt, line) in tries.iter().enumerate() {
        assert_eq!(in_spans(line, "run"), ["r"]);
        assert_eq!(in_spans(line, "workflow"), ["patient"]);
        assert_eq!(in_spans(line, "step"), ["flaky"]);
        assert_eq!(in_spans(line, "command"), ["0:flaky"]);
        assert_eq!(in_spans(line, "attempt"), [attempt]);
    }
    let workflow = lines.saying("got through");
    assert_eq!(in_spans(&workflow[0], "run"), ["r"]);
    assert!(in_spans(&workflow[0], "step").is_empty());
}

/// Fail for good.
#[step(effect = "tool")]
async fn refused(_cx: &mut StepCx) -> Result<()> {
    Err(Failure::permanent("no such account"))
}

#[workflow]
async fn hopeless(cx: &mut Cx) -> Result<()> {
    Ok(refused(cx).await?)
}

#[tokio::test]
async fn a_run_tells_how_it_started_waited_and_ended() {
    let (lines, _guard) = Lines::listen("aether=info");
    let engine = Engine::builder().memory().start().await.unwrap();
    assert!(engine.start::<hopeless>(()).id("bad").await.unwrap().result().await.is_err());
    let failed = lines.saying("run failed");
    assert_eq!(failed[0]["fields"]["error"], "no such account");
    assert_eq!((&failed[0]["fields"]["run"], &failed[0]["level"]), (&"bad".into(), &"ERROR".into()));
    assert_eq!(lines.saying("step failed")[0]["fields"]["error"], "no such account");

    let run = engine.start::<order>("pen".into()).id("good").await.unwrap();
    while lines.saying("waiting for a signal").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    engine.signal(run.id(), "paid", "a", &5).await.unwrap();
    run.result().await.unwrap();
    let asleep = engine.start::<asleep>(()).id("asleep").await.unwrap();
    while lines.saying("waiting for a timer").is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    engine.cancel(asleep.id(), "no longer needed", "ann").await.unwrap();
    assert!(asleep.result().await.is_err());
    assert_eq!(
        lines.of(|target| target == "aether::run"),
        [
            "run started",
            "run failed",
            "run started",
            "waiting for a signal",
            "run completed",
            "run started",
            "waiting for a timer",
            "run cancelled"
        ]
    );
    let cancelled = &lines.saying("run cancelled")[0]["fields"];
    assert_eq!((&cancelled["reason"], &cancelled["actor"]), (&"no longer needed".into(), &"ann".into()));
}

#[workflow]
async fn asleep(cx: &mut Cx) -> Result<()> {
    cx.sleep(LONG).await;
    Ok(())
}

static BROKEN: AtomicBool = AtomicBool::new(false);

/// What a workflow holds while it waits.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        tracing::info!("let go");
    }
}

fn check(price: u32) {
    assert!(!BROKEN.load(Ordering::Relaxed), "the new version has a bug: {price}");
}

/// Wait with something in hand, and break if it has a bug by then.
#[workflow]
async fn holding(cx: &mut Cx) -> Result<u32> {
    let _held = Held;
    let price = price(cx, "pen").await?;
    check(price);
    let paid: u32 = cx.signal("paid").await?;
    Ok(price + paid)
}

#[tokio::test]
async fn what_is_held_is_let_go_once_and_a_panic_in_a_replay_is_heard() {
    let former = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.to_string().contains("the new version has a bug") {
            tracing::error!("panicked");
        } else {
            former(panic);
        }
    }));
    let (lines, _guard) = Lines::listen("info");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let first = eager_engine(&path).await;
    for id in ["r", "broken"] {
        until_waiting(&first.start::<holding>(()).id(id).await.unwrap()).await;
        first.signal(&id.parse().unwrap(), "other", "", &1).await.unwrap();
        until_waiting(&first.handle::<holding>(id).await.unwrap()).await;
    }
    first.verify(&"r".parse().unwrap()).await.unwrap();
    first.shutdown().await.unwrap();
    assert_eq!(
        lines.own(),
        ["pricing", "pricing"],
        "a run that is evicted or released has let go of nothing"
    );

    let second = eager_engine(&path).await;
    let run = second.handle::<holding>("r").await.unwrap();
    second.signal(run.id(), "paid", "a", &5).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(lines.own()[2..], ["let go"]);
    second.shutdown().await.unwrap();

    BROKEN.store(true, Ordering::Relaxed);
    let third = eager_engine(&path).await;
    let run = third.handle::<holding>("broken").await.unwrap();
    third.signal(run.id(), "paid", "a", &5).await.ok();
    assert!(run.result().await.is_err());
    assert_eq!(lines.own()[3..], ["panicked", "let go"]);
}

#[tokio::test]
async fn a_line_that_was_first_reached_in_a_replay_is_written_when_it_is_reached_live() {
    #[workflow]
    async fn late(cx: &mut Cx) -> Result<()> {
        said_late();
        let _: u32 = cx.signal("paid").await?;
        said_late();
        Ok(())
    }
    fn said_late() {
        tracing::info!("late");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    {
        let first = eager_engine(&path).await;
        until_waiting(&first.start::<late>(()).id("r").await.unwrap()).await;
        first.shutdown().await.unwrap();
    }
    // The program starts again with a subscriber: the line is silenced where it is reached first.
    let (lines, _guard) = Lines::listen("info");
    let second = eager_engine(&path).await;
    let run = second.handle::<late>("r").await.unwrap();
    second.signal(run.id(), "paid", "a", &5).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(lines.own(), ["late"]);
}

#[tokio::test]
async fn after_a_crash_the_lines_since_the_last_recorded_event_are_written_again_and_none_is_lost() {
    let full = ["accepted", "pricing", "priced", "adding", "waiting", "paid", "adding", "done"];
    let mut taken_over = 0;
    for write in 2..7 {
        let (lines, _guard) = Lines::listen("info");
        let inner = Arc::new(MemoryStore::new());
        let store = Arc::new(CrashStore::new(inner.clone(), Some(CrashPoint::Before(write))));
        let engine = |store: Arc<dyn Store>| {
            let (lease, poll) = (Duration::from_millis(100), Duration::from_millis(10));
            Engine::builder().store(store).lease(lease).poll_interval(poll).eviction_grace(poll).start()
        };
        let first = engine(store.clone()).await.unwrap();
        let run = first.start::<order>("pen".into()).id("r").await.unwrap();
        let _frozen = timeout(Duration::from_secs(1), first.signal(run.id(), "paid", "a", &5)).await;
        while !store.is_frozen() && lines.saying("run completed").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(first);
        let second = engine(inner.clone()).await.unwrap();
        let run = second.handle::<order>("r").await.unwrap();
        second.signal(run.id(), "paid", "a", &5).await.unwrap();
        assert_eq!(timeout(Duration::from_secs(120), run.result()).await.unwrap().unwrap(), 9);
        taken_over += lines.saying("run taken over: the worker that held it does not renew its lease").len();
        let own = lines.own();
        let same = own.iter().zip(full).take_while(|(said, line)| said == line).count();
        assert!(
            full.ends_with(&own[same..].iter().map(String::as_str).collect::<Vec<_>>()),
            "{write}: {own:?}"
        );
        assert!(own.len() >= full.len(), "{write}: {own:?}");
    }
    assert!(taken_over > 0);
}

/// Jobs that somebody takes.
struct Jobs(Vec<u32>);

impl Jobs {
    /// Takes one, which no lint sees.
    fn taken(&mut self) -> Option<u32> {
        self.0.pop()
    }
}

/// Take work from a queue, in what is told about it.
#[workflow(macros(enabled))]
async fn told(cx: &mut Cx) -> Result<Vec<u32>> {
    let mut queue = Jobs((0..9).collect());
    took(&mut queue);
    let kept = tracing::info_span!("kept", job = ?queue.taken());
    let is_disabled = kept.is_disabled();
    if tracing::enabled!(tracing::Level::INFO) {
        queue.taken();
    }
    price(cx, "pen").await?;
    let paid: u32 = cx.signal("paid").await?;
    // Beyond what is recorded, below a span that was not passed on.
    tracing::info!(parent: &kept, "under a kept span");
    let child = tracing::info_span!(parent: &kept, "child", job = ?queue.taken());
    child.follows_from(&kept);
    child.in_scope(|| took(&mut queue));
    queue.0.push(paid);
    queue.0.push(u32::from(is_disabled));
    Ok(queue.0)
}

fn took(queue: &mut Jobs) {
    tracing::info!(job = ?queue.taken(), "took {:?}", queue.taken());
}

async fn told_and_resumed() -> Vec<u32> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let first = eager_engine(&path).await;
    until_waiting(&first.start::<told>(()).id("r").await.unwrap()).await;
    first.shutdown().await.unwrap();
    let second = eager_engine(&path).await;
    let run = second.handle::<told>("r").await.unwrap();
    second.signal(run.id(), "paid", "a", &5).await.unwrap();
    let left = timeout(Duration::from_secs(120), run.result()).await.unwrap().unwrap();
    second.verify(run.id()).await.unwrap();
    left
}

async fn told_at_once() -> Vec<u32> {
    let engine = Engine::builder().memory().start().await.unwrap();
    let run = engine.start::<told>(()).id("r").await.unwrap();
    engine.signal(run.id(), "paid", "a", &5).await.unwrap();
    timeout(Duration::from_secs(120), run.result()).await.unwrap().unwrap()
}

#[tokio::test]
async fn what_the_arguments_of_a_dropped_line_change_is_changed_in_a_replay_too() {
    for filter in ["info", "warn,it=info", "aether=info"] {
        let (lines, _guard) = Lines::listen(filter);
        let at_once = told_at_once().await;
        assert_eq!(told_and_resumed().await, at_once, "{filter}");
        let wanted = filter != "aether=info";
        assert_eq!(lines.saying("under a kept span").len(), if wanted { 2 } else { 0 }, "{filter}");
    }
}

#[tokio::test]
async fn layers_with_filters_of_their_own_lose_nothing_to_a_replay() {
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::layer::SubscriberExt as _;
    let (all, warnings) = (Lines::default(), Lines::default());
    let layer = |lines: &Lines, filter: &str| {
        let writer = lines.clone();
        tracing_subscriber::fmt::layer()
            .json()
            .with_writer(move || writer.clone())
            .with_filter(EnvFilter::new(filter))
            .boxed()
    };
    let layers = vec![layer(&all, "info"), layer(&warnings, "warn")];
    let subscriber = tracing_subscriber::registry().with(layers);
    let _guard = tracing::subscriber::set_default(subscriber);
    assert_eq!(told_and_resumed().await, told_at_once().await);
    assert_eq!(warnings.own(), Vec::<String>::new());
    let own = ["took Some(8)", "pricing", "under a kept span", "took Some(3)"];
    assert_eq!(all.own(), [own, own].concat());
}
