//! For how long a call that may be repeated is tried again: what outlives an outage, what does not, what changes it, what
//! a restart keeps of it, and what a person sees meanwhile. Time is virtual.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aether::effect::EffectClass;
use aether::engine::{EngineBuilder, Environment as _};
use aether::error::RunError;
use aether::id::RunId;
use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError};
use aether::prelude::*;
use aether::store::event::{Event, StepRetried};
use aether::store::memory::MemoryStore;
use aether::view::Status;
use aether_testing::{CrashPoint, Sim, SimEnvironment, SimReport};
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn busy() -> ModelError {
    ModelError::Overloaded {
        status: 503,
        retry_after: None,
        message: "the service is down for maintenance".into(),
    }
}

/// Ask a model, with a prompt of a usual size.
#[workflow]
async fn asking(cx: &mut Cx) -> Result<String> {
    Ok(cx.llm("plan").system("You plan. ".repeat(200)).user("How?").text().await?)
}

/// Ask a model, five times at most.
#[workflow]
async fn asking_five_times(cx: &mut Cx) -> Result<String> {
    Ok(cx.llm("plan").retry(Retry::times(4)).user("How?").text().await?)
}

/// Let an agent work for ten minutes at most.
#[workflow]
async fn working(cx: &mut Cx) -> Result<String> {
    Ok(cx.agent("plan").retry(Retry::within(10 * MINUTE)).run("How?").await?.answer)
}

/// Look something up.
#[step(effect = "read")]
async fn look_up(_cx: &mut StepCx, what: String) -> Result<String> {
    Err(Failure::permanent(what))
}

/// Look something up, for ten minutes.
#[step(effect = "read", retry(patience = "10m"))]
async fn look_up_for_long(_cx: &mut StepCx, what: String) -> Result<String> {
    Err(Failure::permanent(what))
}

/// Send something whose receiver knows repeats.
#[step(effect = "tool", idempotent)]
async fn send(_cx: &mut StepCx, what: String) -> Result<String> {
    Err(Failure::permanent(what))
}

#[workflow]
async fn looking(cx: &mut Cx) -> Result<String> {
    Ok(look_up(cx, "it".into()).await?)
}

#[workflow]
async fn looking_for_long(cx: &mut Cx) -> Result<String> {
    Ok(look_up_for_long(cx, "it".into()).await?)
}

/// The call says something else than its step.
#[workflow]
async fn looking_twice(cx: &mut Cx) -> Result<String> {
    Ok(look_up_for_long(cx.retry(Retry::times(1)), "it".into()).await?)
}

#[workflow]
async fn inner(cx: &mut Cx) -> Result<String> {
    let declared = look_up_for_long(cx, "it".into()).await;
    look_up(cx, declared.unwrap_or_default()).await?;
    Ok(String::new())
}

/// A policy for what is below, where that declares none.
#[workflow]
async fn looking_below(cx: &mut Cx) -> Result<String> {
    inner(cx.retry(Retry::times(1))).await
}

/// A call that may change the world keeps what its step declares.
#[workflow]
async fn sending(cx: &mut Cx) -> Result<String> {
    Ok(send(cx.retry(Retry::times(9)), "it".into()).await?)
}

#[workflow]
async fn fetching(cx: &mut Cx) -> Result<String> {
    Ok(cx.http().get("https://example.org/it").send().await?.text().to_owned())
}

#[workflow]
async fn fetching_twice(cx: &mut Cx) -> Result<String> {
    Ok(cx.http().get("https://example.org/it").retry(Retry::times(1)).send().await?.text().to_owned())
}

/// A model that cannot be reached before the end of an outage.
#[derive(Clone, Debug)]
struct Outage {
    until: Instant,
    asked: Arc<AtomicUsize>,
}

impl Outage {
    fn of(length: Duration) -> Self {
        Self { until: Instant::now() + length, asked: Arc::default() }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + 'a>>;

impl ModelClient for Outage {
    fn chat(&self, _: ChatRequest) -> Answer<'_> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let up = Instant::now() >= self.until;
        Box::pin(std::future::ready(if up {
            Ok(ChatResponse { content: Some("thus".into()), ..ChatResponse::default() })
        } else {
            Err(busy())
        }))
    }
}

/// An engine on a paused clock. `world` is the clock of all engines of a test.
fn engine(store: &MemoryStore, world: &SimEnvironment, model: &Outage) -> EngineBuilder {
    let builder = Engine::builder().environment(Arc::new(world.clone())).store(Arc::new(store.clone()));
    builder.model(model.clone())
}

fn world() -> SimEnvironment {
    SimEnvironment::new("2026-01-02T03:04:05Z".parse().unwrap(), 7)
}

/// The retries in a journal, and its events and bytes.
async fn retries(store: &MemoryStore, run: &RunId) -> (Vec<StepRetried>, usize, usize) {
    use aether::store::Store as _;
    let frames = store.load(run, 0).await.unwrap();
    let bytes = frames.iter().map(|frame| frame.text.len()).sum();
    let events: Vec<Event> = frames.iter().flat_map(|frame| frame.events().unwrap()).collect();
    (retried(&events), events.len(), bytes)
}

fn retried(events: &[Event]) -> Vec<StepRetried> {
    let retried = events.iter().filter_map(|event| match event {
        Event::StepRetried(retried) => Some(retried.clone()),
        _ => None,
    });
    retried.collect()
}

fn waits(retries: &[StepRetried]) -> Vec<Duration> {
    let pairs = retries.windows(2);
    pairs.map(|pair| Duration::try_from(pair[1].due.duration_since(pair[0].due)).unwrap()).collect()
}

fn error<T: std::fmt::Debug, E: std::fmt::Display>(result: Result<T, RunError<E>>) -> String {
    match result {
        Err(RunError::Failed(error)) => error.to_string(),
        Err(_) => panic!("the run was stopped"),
        Ok(value) => panic!("{value:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_call_outlives_an_outage_of_half_an_hour_at_a_small_price() {
    let (store, world, model) = (MemoryStore::new(), world(), Outage::of(30 * MINUTE));
    let engine = engine(&store, &world, &model).start().await.unwrap();
    let run = engine.start::<asking>(()).id("r").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "thus");
    let (retries, events, bytes) = retries(&store, run.id()).await;
    assert_eq!(retries.len() + 1, model.asked());
    let longest = waits(&retries).into_iter().max().unwrap();
    assert!(longest > 50 * MINUTE / 60 && longest <= MINUTE, "{longest:?}");
    // Forty attempts; most waits evict the run, which is noted, too. The prompt of 2 kB is in the journal once.
    println!("{} attempts, {events} events, {bytes} bytes", model.asked());
    assert!((35..60).contains(&model.asked()), "{}", model.asked());
    assert!(events < 4 * model.asked() + 20 && bytes < 40_000, "{events} events, {bytes} bytes");
    engine.verify(run.id()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_default_patience_is_an_hour_and_the_last_attempt_is_made_at_its_end() {
    let (store, world, model) = (MemoryStore::new(), world(), Outage::of(5 * HOUR));
    let engine = engine(&store, &world, &model).start().await.unwrap();
    let begun = Instant::now();
    let run = engine.start::<asking>(()).id("r").await.unwrap();
    let said = error(run.result().await);
    assert!(said.contains("no attempt left") && said.contains("maintenance"), "{said}");
    let took = begun.elapsed();
    assert!(took >= HOUR && took < HOUR + MINUTE / 6, "{took:?}");
    let (retries, ..) = retries(&store, run.id()).await;
    assert_eq!(retries.last().unwrap().spent_ms, Some(3_600_000));
}

#[tokio::test]
async fn reads_outlive_an_outage_too_and_wait_for_a_minute_at_most() {
    let report = Sim::new::<looking>().fail_times::<look_up>(45, Failure::retryable("down"));
    let report = report.stub::<look_up>(Ok).run(()).await;
    assert_eq!(report.assert_completed(), "it");
    assert!(report.slept >= 30 * MINUTE && report.slept < HOUR, "{:?}", report.slept);
    let waits = waits(&retried(&report.events));
    assert!(waits.iter().all(|wait| *wait <= MINUTE) && waits.len() > 30, "{waits:?}");

    // Refused connections, and then an answer.
    let refused = || Err::<u16, _>(Failure::retryable("refused"));
    let answers = (0..45).map(|_| refused()).chain([Ok(200)]);
    let report = Sim::new::<fetching>().http_seq("GET", "https://example.org/it", answers).run(()).await;
    report.assert_completed();
    assert!(report.slept > 30 * MINUTE, "{:?}", report.slept);
}

#[tokio::test]
async fn what_will_not_pass_fails_at_once_and_what_nobody_classified_after_three_retries() {
    let report = Sim::new::<looking>().fail_times::<look_up>(99, Failure::permanent("gone")).run(()).await;
    report.assert_calls::<look_up>(1);
    assert_eq!((error(report.result), report.slept), ("gone".to_owned(), Duration::ZERO));

    let report =
        Sim::new::<asking>().model(|_| Err::<String, _>(ModelError::Setup("no key".into()))).run(()).await;
    assert_eq!(report.model_requests("plan").len(), 1);

    let report = Sim::new::<looking>().fail_times::<look_up>(99, Failure::new("no idea")).run(()).await;
    report.assert_calls::<look_up>(4);
    assert!(report.slept < MINUTE, "{:?}", report.slept);
    // A model that answers, and not with what was asked for, is no outage: each answer is paid for.
    let report = Sim::new::<asking>().model(|_| "").run(()).await;
    assert_eq!(report.model_requests("plan").len(), 4);
}

#[tokio::test]
async fn failures_without_a_class_are_counted_apart_from_an_outage() {
    let down = |_| Err(Failure::retryable("down"));
    let odd = |_| Err(Failure::new("odd"));
    let answers = (0..9).map(down).chain((0..3).map(odd)).chain([Ok("it".into())]).collect();
    let sim = Sim::new::<looking>().stub_seq::<look_up>(answers);
    sim.run(()).await.assert_completed();
    // And a crash at any write does not count them anew.
    sim.crash_at_every_append(()).await;
}

#[tokio::test]
async fn one_line_of_a_step_or_of_a_call_changes_it() {
    let long = |error| Sim::new::<looking_for_long>().fail_times::<look_up_for_long>(999, error);
    for error in [Failure::retryable("busy"), Failure::new("busy")] {
        let report = long(error).run(()).await;
        report.assert_failed();
        assert!(report.slept >= 10 * MINUTE && report.slept < 11 * MINUTE, "{:?}", report.slept);
    }
    let busy_for_ever = || Failure::retryable("busy");
    let report = Sim::new::<looking_twice>().fail_times::<look_up_for_long>(9, busy_for_ever()).run(()).await;
    report.assert_calls::<look_up_for_long>(2);

    let report = Sim::new::<looking_below>()
        .fail_times::<look_up_for_long>(999, busy_for_ever())
        .fail_times::<look_up>(9, busy_for_ever())
        .run(())
        .await;
    report.assert_calls::<look_up>(2);
    assert!(report.slept >= 10 * MINUTE, "a step that declares its patience keeps it: {:?}", report.slept);

    let report = Sim::new::<sending>().fail_times::<send>(9, busy_for_ever()).run(()).await;
    report.assert_calls::<send>(1);

    let refused = || std::iter::repeat_with(|| Err::<u16, _>(Failure::retryable("refused")));
    let url = "https://example.org/it";
    let report = Sim::new::<fetching_twice>().http_seq("GET", url, refused().take(9)).run(()).await;
    assert_eq!(report.effect_calls("http.get"), 2);
}

#[tokio::test]
async fn one_line_of_a_model_call_changes_it() {
    let down = |_: &ChatRequest| Err::<String, _>(busy());
    let report = Sim::new::<asking_five_times>().model(down).run(()).await;
    assert_eq!(report.model_requests("plan").len(), 5);
    let report = Sim::new::<working>().model(down).run(()).await;
    report.assert_failed();
    assert!(report.slept >= 10 * MINUTE && report.slept < 11 * MINUTE, "{:?}", report.slept);
}

#[tokio::test(start_paused = true)]
async fn one_line_of_an_engine_changes_it_for_each_class() {
    let (world, model) = (world(), Outage::of(2 * HOUR));
    let begun = Instant::now();
    let store = MemoryStore::new();
    let patient = Retry { patience: Some(3 * HOUR), ..Retry::READ };
    let engine_one = engine(&store, &world, &model).model_retry(Retry::times(2)).start().await.unwrap();
    let run = engine_one.start::<asking>(()).id("r").await.unwrap();
    error(run.result().await);
    assert_eq!((model.asked(), begun.elapsed() < MINUTE), (3, true));
    // What a call says outweighs the engine.
    let run = engine_one.start::<asking_five_times>(()).id("five").await.unwrap();
    error(run.result().await);
    assert_eq!(model.asked(), 3 + 5);

    let store = MemoryStore::new();
    let engine_two = engine(&store, &world, &model).model_retry(patient).read_retry(Retry::NONE);
    let engine_two = engine_two.start().await.unwrap();
    let run = engine_two.start::<asking>(()).id("r").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "thus");
    assert!(begun.elapsed() >= 2 * HOUR);
    let step = &engine_two.view(run.id()).await.unwrap().executions[0];
    assert_eq!((step.constraints.attempts, step.constraints.patience_ms), (None, Some(10_800_000)));
    assert_eq!(step.class, EffectClass::Llm);
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_an_outage_keeps_the_schedule_and_begins_no_new_patience() {
    let (store, world, model) = (MemoryStore::new(), world(), Outage::of(5 * HOUR));
    let begun = Instant::now();
    let first = engine(&store, &world, &model).start().await.unwrap();
    let run = first.start::<asking>(()).id("r").await.unwrap().id().clone();
    sleep(20 * MINUTE).await;
    first.shutdown().await.unwrap();
    let (before, ..) = retries(&store, &run).await;
    let asked = model.asked();

    // The wait is not cut short by the restart, and the attempt is made on time.
    let second = engine(&store, &world, &model).start().await.unwrap();
    sleep(Duration::from_millis(500)).await;
    let due = before.last().unwrap().due;
    if world.now() < due {
        assert_eq!(model.asked(), asked);
    }
    let handle = second.handle::<asking>("r").await.unwrap();
    error(handle.result().await);
    let took = begun.elapsed();
    assert!(took >= HOUR && took < HOUR + MINUTE / 6, "{took:?}");
    let (after, ..) = retries(&store, &run).await;
    let numbers: Vec<u32> = after.iter().map(|retried| retried.attempt).collect();
    assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>());
    assert_eq!(after[..before.len()], before);
    let gap = after[before.len()].due.duration_since(due);
    assert!(gap.as_secs() <= 61, "the next attempt was made on time: {gap:?}");
}

#[tokio::test]
async fn a_killed_process_keeps_the_number_of_the_attempt_and_the_patience() {
    let sim =
        || Sim::new::<looking_for_long>().fail_times::<look_up_for_long>(999, Failure::retryable("busy"));
    let uncrashed: SimReport<_> = sim().run(()).await;
    for write in [2, 5, 9, 14, 20] {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            let report = sim().crash(point).run(()).await;
            assert_eq!(report.crashes, 1);
            let numbers: Vec<u32> = retried(&report.events).iter().map(|retried| retried.attempt).collect();
            assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>(), "{point:?}");
            // The time until another process has the run uses up no patience.
            let spent = |report: &SimReport<_>| retried(&report.events).last().and_then(|last| last.spent_ms);
            assert_eq!((spent(&report), spent(&uncrashed)), (Some(600_000), Some(600_000)), "{point:?}");
            assert_eq!(numbers.len(), retried(&uncrashed.events).len(), "{point:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_sees_which_attempt_comes_next_why_and_when() {
    let (store, world, model) = (MemoryStore::new(), world(), Outage::of(30 * MINUTE));
    let engine = engine(&store, &world, &model).start().await.unwrap();
    let run = engine.start::<asking>(()).id("r").await.unwrap();
    sleep(20 * MINUTE + Duration::from_secs(7)).await;
    let view = engine.view(run.id()).await.unwrap();
    // Evicted: a run that waits for its next attempt needs no memory.
    assert_eq!((run.status().await.unwrap(), view.status), (Status::Waiting, Status::Waiting));
    let (retries, ..) = retries(&store, run.id()).await;
    let last = retries.last().unwrap();
    let retrying = view.retrying();
    assert_eq!(retrying.len(), 1);
    assert_eq!((retrying[0].next_at, retrying[0].attempt as usize), (Some(last.due), model.asked() + 1));
    let attempt = model.asked() + 1;
    assert_eq!(
        retrying[0].to_string(),
        format!(
            "0:llm.plan is retrying: attempt {attempt}, last error \"the provider is overloaded or failing (status \
             503): the service is down for maintenance\", next at {}",
            last.due
        )
    );
    assert_eq!(view.results()[0].retrying.as_ref(), Some(&retrying[0]));
    let shown = view.for_people();
    assert_eq!(shown.steps.last().unwrap().retrying.as_ref(), Some(&retrying[0]));
    assert!(shown.steps[..shown.steps.len() - 1].iter().all(|step| step.retrying.is_none()));

    run.result().await.unwrap();
    let view = engine.view(run.id()).await.unwrap();
    assert!(view.retrying().is_empty() && view.results()[0].retrying.is_none());
}
