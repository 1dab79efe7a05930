//! A program of which every value is encrypted dies at each of its writes, and each life has a new key: it ends as it ends
//! undisturbed and in the open, calls nothing twice, and no byte of its file shows what was planted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use aether::encryption::Encryption;
use aether::id::RunId;
use aether::people::Waiting;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether_testing::{CrashPoint, CrashStore};

use super::{key, ring};
use crate::planted::Planted;
use crate::seeds::kit::{flushed, in_time};

/// Every place in which something is planted.
const PLACES: &[&str] = &[
    "answer",
    "approval details",
    "approved argument",
    "carried input",
    "child input",
    "child error",
    "external result",
    "http error",
    "input",
    "large argument",
    "large result",
    "llm result",
    "question",
    "read result",
    "result",
    "signal",
    "stream item",
    "taken order",
    "tool result",
    "transaction result",
];

/// With what JSON and shells write in another way.
fn plant(place: &str) -> String {
    format!("zq7 \"{place}\\ ä 7qz")
}

fn planted() -> &'static Planted {
    static PLANTED: LazyLock<Planted> = LazyLock::new(|| {
        let long = PLACES.iter().map(|place| (*place, plant(place)));
        // A part of a text is as bad as the whole.
        Planted::new(long.chain([("any", "\\ ä 7qz".to_owned())]))
    });
    &PLANTED
}

/// More than stands in a journal.
const LARGE: usize = 70_000;

/// How often bodies were called, by idempotency key.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<String, u32>>>);

impl Calls {
    fn note(cx: &StepCx) -> Result<()> {
        *cx.dep::<Self>()?.0.lock().unwrap().entry(cx.idempotency_key().to_string()).or_default() += 1;
        Ok(())
    }

    fn was_called(cx: &StepCx) -> Result<bool> {
        Ok(cx.dep::<Self>()?.0.lock().unwrap().contains_key(cx.idempotency_key().as_str()))
    }
}

/// Look something up, and tell of it meanwhile.
#[step(effect = "read")]
async fn kil_read(cx: &mut StepCx) -> Result<String> {
    let told = cx.stream("told");
    told.send(&plant("stream item"));
    told.send(&"x".repeat(LARGE));
    Ok(plant("read result"))
}

/// Ask a model.
#[step(effect = "llm")]
async fn kil_llm(cx: &mut StepCx) -> Result<String> {
    let _cx = cx;
    Ok(plant("llm result"))
}

/// What does not cost anything.
#[step(effect = "pure")]
async fn kil_pure(text: String) -> Result<usize> {
    Ok(text.len())
}

/// A large value for another one.
#[step(effect = "tool", on_unknown = "probe", probe = kil_large_look)]
async fn kil_large(cx: &mut StepCx, much: String) -> Result<String> {
    Calls::note(cx)?;
    Ok(large(much.len()))
}

fn large(length: usize) -> String {
    format!("{}{}", plant("large result"), "y".repeat(length))
}

async fn kil_large_look(cx: &mut StepCx, much: String) -> Result<Probe<String>> {
    Ok(if Calls::was_called(cx)? { Probe::Happened(large(much.len())) } else { Probe::DidNotHappen })
}

/// Pay, once, if somebody agrees.
#[step(effect = "tool", irreversible, on_unknown = "probe", probe = kil_pay_look, approval = "required")]
async fn kil_pay(cx: &mut StepCx, what: String) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("{} for {what}", plant("tool result")))
}

async fn kil_pay_look(cx: &mut StepCx, what: String) -> Result<Probe<String>> {
    let paid = format!("{} for {what}", plant("tool result"));
    Ok(if Calls::was_called(cx)? { Probe::Happened(paid) } else { Probe::DidNotHappen })
}

/// Ask somebody else to do it, who looks at the key.
#[step(effect = "external", on_unknown = "retry", idempotent)]
async fn kil_external(cx: &mut StepCx) -> Result<String> {
    let _cx = cx;
    Ok(plant("external result"))
}

/// Is refused.
#[step(effect = "http", on_unknown = "retry", idempotent, retry(max_retries = 0))]
async fn kil_http(cx: &mut StepCx) -> Result<String> {
    let _cx = cx;
    Err(Failure::permanent(plant("http error")))
}

/// In the transaction of the store.
#[step(effect = "transaction")]
async fn kil_transact(cx: &mut StepCx) -> Result<String> {
    let _cx = cx;
    Ok(plant("transaction result"))
}

/// Take an order back.
#[step(effect = "tool", on_unknown = "retry", idempotent)]
async fn kil_take_back(cx: &mut StepCx, order: String, receipt: Option<String>) -> Result<()> {
    let _both = (cx, order, receipt);
    Ok(())
}

/// Order something.
#[step(effect = "tool", on_unknown = "probe", probe = kil_order_look, compensate = kil_take_back)]
async fn kil_order(cx: &mut StepCx, order: String) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("ordered {order}"))
}

async fn kil_order_look(cx: &mut StepCx, order: String) -> Result<Probe<String>> {
    Ok(if Calls::was_called(cx)? { Probe::Happened(format!("ordered {order}")) } else { Probe::DidNotHappen })
}

/// Orders, fails, and takes the order back.
#[workflow]
async fn kil_child(cx: &mut Cx, input: String) -> Result<String> {
    kil_order(cx, plant("taken order")).await?;
    Err(Failure::permanent(format!("{} {input}", plant("child error"))))
}

/// Everything.
#[workflow]
async fn kil_all(cx: &mut Cx, input: String) -> Result<String> {
    let mut seen = vec![input, kil_read(cx).await?, kil_llm(cx).await?];
    seen.push(kil_pure(cx, seen.concat()).await?.to_string());
    let much = format!("{}{}", plant("large argument"), "x".repeat(LARGE));
    seen.push(kil_large(cx, much).await?.len().to_string());
    seen.push(kil_pay(cx, "nothing yet".to_owned()).await?);
    seen.push(kil_external(cx).await?);
    seen.push(kil_http(cx).await.unwrap_err().to_string());
    seen.push(kil_transact(cx).await?);
    seen.push(cx.signal::<String>("word").await?);
    seen.push(cx.ask(plant("question")).named("question").await?);
    let agreed = cx.approval("agreed").details(&plant("approval details")).await?;
    seen.push(format!("{}", agreed.is_approved()));
    seen.push(cx.child::<kil_child>(plant("child input")).await.unwrap_err().to_string());
    cx.continue_as_new::<kil_renewed>((plant("carried input"), seen.join("\n"))).await
}

/// The generation after that.
#[workflow]
async fn kil_renewed(cx: &mut Cx, parts: (String, String)) -> Result<String> {
    cx.sleep(Duration::from_millis(1)).await;
    Ok(format!("{}\n{}\n{}", plant("result"), parts.0, parts.1))
}

/// Says what there is to say to each wait, again and again: it may be over, or what was said may be lost.
async fn operate(engine: Engine, run: RunId) {
    let _sent = engine.signal(&run, "word", "the only one", &plant("signal")).await;
    loop {
        for open in engine.pending(&run).await.unwrap_or_default() {
            let _said = match (open.waiting, open.name.as_str()) {
                (Waiting::Question, _) => engine.answer(&run, &open.command, &plant("answer"), "ann").await,
                (_, "agreed") => engine.approve(&run, &open.command, "ann").await,
                (Waiting::Approval, _) => {
                    let what = serde_json::json!({ "what": plant("approved argument") });
                    engine.approve_with(&run, &open.command, &what, "ann").await
                }
                _ => continue,
            };
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The ring of this life: its own key is the current one, those of all before it are old.
fn ring_of(life: u8) -> Encryption {
    Encryption::new((1..life).fold(ring(life), |ring, old| ring.and_old(format!("key {old}"), key(old))))
}

/// What one life came to.
struct Life {
    /// None where the process died.
    result: Option<String>,
    writes: u64,
    effects: u64,
    found: BTreeSet<(String, String)>,
}

fn live(folder: &Path, calls: &Calls, life: u8, encrypts: bool, point: Option<CrashPoint>) -> Life {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let life = runtime.block_on(async {
        let inner: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.join("agent.db")).unwrap());
        let store = Arc::new(CrashStore::new(inner.clone(), point));
        let builder = Engine::builder().store(store.clone()).provide(calls.clone());
        let builder =
            builder.poll_interval(Duration::from_millis(5)).eviction_grace(Duration::from_secs(3600));
        let builder = if encrypts { builder.payload_codec(ring_of(life)) } else { builder };
        let all = async {
            let engine = builder.start().await.unwrap();
            let run = engine.start::<kil_all>(plant("input")).id("all").await.unwrap();
            let operator = tokio::spawn(operate(engine.clone(), run.id().clone()));
            let result = in_time(run.result()).await.unwrap();
            operator.abort();
            assert_eq!(streamed(&run).await, format!("{}{}", plant("stream item"), "x".repeat(LARGE)));
            result
        };
        let result = tokio::select! {
            biased;
            () = store.crashed() => None,
            result = all => Some(result),
        };
        flushed(&inner).await;
        // With the log of the file, which holds what was overwritten.
        let (found, searched) = planted().found_below(folder);
        assert!(searched > 4096);
        inner.close().await.unwrap();
        Life { result, writes: store.writes(), effects: store.effects(), found }
    });
    drop(runtime);
    life
}

/// The text of the stream of a run that has ended.
async fn streamed(run: &RunHandle<kil_all>) -> String {
    let (mut told, mut whole) = (run.stream::<String>("told").text(), String::new());
    while let Some(text) = in_time(told.next()).await.unwrap() {
        whole = text.to_string();
    }
    whole
}

/// Lives until one ends the run; each dies as told. Returns the result and the number of deaths.
fn lives(encrypts: bool, deaths: impl Fn(u8) -> Option<CrashPoint>) -> (String, u8) {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Calls::default());
    for number in 1..=60 {
        let life = live(folder.path(), &calls, number, encrypts, deaths(number));
        assert_eq!(life.found, BTreeSet::new(), "these stand in the open after life {number}");
        if let Some(result) = life.result {
            let calls = calls.0.lock().unwrap();
            assert!(calls.values().all(|calls| *calls == 1), "called twice: {calls:?}");
            assert_eq!(calls.len(), 3, "{calls:?}");
            return (result, number - 1);
        }
    }
    panic!("the run makes no progress")
}

#[test]
fn a_program_that_dies_at_any_write_under_a_codec_ends_the_same_and_shows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let open = live(folder.path(), &Calls::default(), 1, false, None);
    let found: BTreeSet<&str> = open.found.iter().map(|(name, _)| name.as_str()).collect();
    let planted: BTreeSet<&str> = PLACES.iter().copied().chain(["any"]).collect();
    assert_eq!(found, planted, "what was planted is found where nothing is encrypted");
    let expected = open.result.unwrap();

    // What is durable after a write is what is there before the next one.
    let point = |number: u64| {
        let after = number.is_multiple_of(2);
        if after { CrashPoint::After(number) } else { CrashPoint::Before(number) }
    };
    let effects = (1..=open.effects)
        .flat_map(|number| [CrashPoint::BeforeEffect(number), CrashPoint::AfterEffect(number)]);
    let points: Vec<CrashPoint> = (1..=open.writes).map(point).chain(effects).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (result, deaths) = lives(true, |life| (life == 1).then_some(*point));
                    assert_eq!(result, expected, "{point:?}");
                    assert_eq!(deaths, 1, "{point:?} was not reached");
                }
            });
        }
    });
    assert!(open.writes > 30 && open.effects >= 2, "{} {}", open.writes, open.effects);
}

#[test]
fn a_program_that_dies_again_and_again_under_ever_new_keys_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let open = live(folder.path(), &Calls::default(), 1, false, None);
    // A life begins with the writes that claim the run and its child again, and with their starts, in any order.
    for every in [6, 9] {
        let (result, deaths) = lives(true, |_| Some(CrashPoint::After(every)));
        assert_eq!(Some(&result), open.result.as_ref());
        assert!(deaths >= 3, "{deaths}");
    }
}
