//! Requests that wait for their host, through a real engine and real sockets: before the intent, in their order, cancelled
//! with their run; and hosts that ask to be left alone.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use aether_core::definition::def::{Retry, StepOptions};
use aether_core::engine::{Engine, EngineBuilder, RunError};
use aether_core::environment::Environment;
use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::step::Step;
use aether_core::store::Store;
use aether_core::store::memory::MemoryStore;
use aether_core::workflow::call_step;
use aether_effects::environment::SystemEnvironment;
use aether_effects::http::{CxHttp, HostLimit, HttpClient, StepHttp};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kit::{builder, events, verify};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

const LONG: Duration = Duration::from_secs(600);

/// A server that answers a request only when it is told to.
#[derive(Clone)]
struct Gatekeeper {
    url: String,
    /// Requests that were received, those that are not answered, and the most that were not at a time.
    received: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    answers: Arc<Semaphore>,
}

impl Gatekeeper {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (received, open, most) = (Arc::default(), Arc::default(), Arc::default());
        let keeper = Self { url, received, open, most, answers: Arc::new(Semaphore::new(0)) };
        let accepting = keeper.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let keeper = accepting.clone();
                tokio::spawn(async move {
                    let mut bytes = [0; 4096];
                    if !stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                        return;
                    }
                    let open = keeper.open.fetch_add(1, Ordering::SeqCst) + 1;
                    keeper.most.fetch_max(open, Ordering::SeqCst);
                    keeper.received.fetch_add(1, Ordering::SeqCst);
                    keeper.answers.acquire().await.unwrap().forget();
                    keeper.open.fetch_sub(1, Ordering::SeqCst);
                    let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
                    let _ = stream.write_all(answer).await;
                });
            }
        });
        keeper
    }

    async fn received(&self, times: usize) {
        until(|| self.received.load(Ordering::SeqCst) >= times).await;
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn one_at_a_time() -> HttpClient {
    HttpClient::builder().host_limit("127.0.0.1", HostLimit::new().concurrent(1)).build().unwrap()
}

workflow!(Post(cx, url: String) -> u16 {
    Ok(cx.http().post(url).timeout(LONG).json(&1).send().await?.status)
});

step!(post_it(cx, url: String) -> u16, StepOptions::of(EffectClass::Tool), {
    Ok(cx.http().post(url).timeout(LONG).json(&1).send().await?.status)
});

workflow!(CallStep(cx, url: String) -> u16 {
    Ok(call_step::<post_it>(cx, post_it::encode(&url)).await?)
});

/// Starts a run whose request waits behind another one's, and looks for long enough that it would have been sent.
async fn waiting(engine: &Engine, keeper: &Gatekeeper) -> RunId {
    engine.start::<Post>(keeper.url.clone()).id("first").await.unwrap();
    keeper.received(1).await;
    let run = engine.start::<Post>(keeper.url.clone()).id("second").await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    run.id().clone()
}

#[tokio::test]
async fn a_crash_while_a_request_waits_for_its_host_leaves_no_intent() {
    let (keeper, store) = (Gatekeeper::start().await, MemoryStore::new());
    let engine = builder(&store).provide(one_at_a_time()).start().await.unwrap();
    let second = waiting(&engine, &keeper).await;
    engine.shutdown_within(Duration::ZERO).await.unwrap();
    assert!(store.entries(&second).await.unwrap().is_empty());
    let started = |event: &Event| matches!(event, Event::ToolInvocationStarted(_) | Event::NodeStarted(_));
    assert!(!events(&store, &second).await.iter().any(started), "nothing is recorded of it");
    assert_eq!(keeper.received.load(Ordering::SeqCst), 1);

    keeper.answers.add_permits(8);
    let poll = Duration::from_millis(5);
    let engine = builder(&store).register::<Post>().poll_interval(poll).start().await.unwrap();
    let result = async |id: &'static str| engine.handle::<Post>(id).await.unwrap().result().await;
    let Err(RunError::Failed(failure)) = result("first").await else { panic!("it was in flight") };
    assert_eq!(failure.class(), FailureClass::Unknown);
    assert_eq!(
        result("second").await.unwrap(),
        200,
        "it was not sent, so there is nothing to be in doubt about"
    );
    assert_eq!(keeper.received.load(Ordering::SeqCst), 2);
    verify(&engine, &second).await;
}

#[tokio::test]
async fn a_run_that_waits_for_a_host_is_cancelled_and_shut_down_at_once() {
    let (keeper, store) = (Gatekeeper::start().await, MemoryStore::new());
    // Longer than anybody waits for this test: what waits is not in flight.
    let engine = builder(&store).provide(one_at_a_time()).cancel_grace(LONG).start().await.unwrap();
    let second = waiting(&engine, &keeper).await;
    let third = engine.start::<Post>(keeper.url.clone()).id("third").await.unwrap();
    engine.cancel(&second, "not needed", "ann").await.unwrap();
    let ended = engine.handle::<Post>(&*second.to_string()).await.unwrap().result().await;
    assert!(matches!(ended, Err(RunError::Cancelled { .. })), "{ended:?}");
    assert!(store.entries(&second).await.unwrap().is_empty());
    // Who is behind it in the line gets the place.
    keeper.answers.add_permits(1);
    keeper.received(2).await;
    keeper.answers.add_permits(1);
    assert_eq!(third.result().await.unwrap(), 200);
    assert_eq!(keeper.received.load(Ordering::SeqCst), 2);
}

/// The system's clock, set back by so many seconds.
#[derive(Clone, Debug, Default)]
struct SetBack(Arc<AtomicI64>);

impl Environment for SetBack {
    fn now(&self) -> Timestamp {
        SystemEnvironment.now() - SignedDuration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        self.sleep(until.duration_since(self.now()).try_into().unwrap_or_default())
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

#[tokio::test]
async fn a_run_keeps_its_place_in_the_line_of_a_host_when_the_clock_is_set_back() {
    let (keeper, store, clock) = (Gatekeeper::start().await, MemoryStore::new(), SetBack::default());
    let engine = EngineBuilder::new(Arc::new(clock.clone())).store(Arc::new(store.clone()));
    let engine = engine.poll_interval(Duration::from_millis(5)).eviction_grace(Duration::ZERO);
    let engine = engine.provide(one_at_a_time()).start().await.unwrap();
    let second = waiting(&engine, &keeper).await;
    clock.0.store(3_600, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(store.run(&second).await.unwrap().unwrap().owner.is_some(), "it stays in memory");
    keeper.answers.add_permits(2);
    let second = engine.handle::<Post>(&*second.to_string()).await.unwrap();
    assert_eq!(second.result().await.unwrap(), 200);
}

#[tokio::test]
async fn a_host_gets_no_more_requests_at_a_time_than_its_limit_from_workflows_and_steps() {
    let (keeper, store) = (Gatekeeper::start().await, MemoryStore::new());
    let limit = HostLimit::new().concurrent(2);
    let client = HttpClient::builder().each_host_limit(limit).build().unwrap();
    let engine = builder(&store).provide(client).start().await.unwrap();
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(engine.start::<Post>(keeper.url.clone()).await.unwrap());
    }
    let mut steps = Vec::new();
    for _ in 0..3 {
        steps.push(engine.start::<CallStep>(keeper.url.clone()).await.unwrap());
    }
    for answered in 0..6 {
        keeper.received((answered + 2).min(6)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        keeper.answers.add_permits(1);
    }
    for run in runs {
        assert_eq!(run.result().await.unwrap(), 200);
    }
    for step in steps {
        assert_eq!(step.result().await.unwrap(), 200);
    }
    assert_eq!((keeper.received.load(Ordering::SeqCst), keeper.most.load(Ordering::SeqCst)), (6, 2));
}

#[tokio::test]
async fn the_request_of_a_step_waits_in_its_body_and_is_known_not_to_be_sent_when_its_run_is_cancelled() {
    let (keeper, store) = (Gatekeeper::start().await, MemoryStore::new());
    let engine = builder(&store).provide(one_at_a_time()).cancel_grace(LONG).start().await.unwrap();
    engine.start::<Post>(keeper.url.clone()).await.unwrap();
    keeper.received(1).await;
    let run = engine.start::<CallStep>(keeper.url.clone()).await.unwrap();
    // The step's own intent comes first.
    while store.entries(run.id()).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    engine.cancel(run.id(), "not needed", "ann").await.unwrap();
    assert!(matches!(run.result().await, Err(RunError::Cancelled { .. })));
    let row = store.entries(run.id()).await.unwrap().remove(0);
    assert_eq!(row.status, aether_core::store::ledger::LedgerStatus::Failed, "it definitely did not happen");
    assert_eq!(keeper.received.load(Ordering::SeqCst), 1);
}

/// A server that says once that it has too much to do, and how long it is to be left alone.
async fn busy(status: u16, headers: &[(&str, &str)]) -> MockServer {
    let server = MockServer::start().await;
    let mut answer = ResponseTemplate::new(status);
    for (name, value) in headers {
        answer = answer.insert_header(*name, *value);
    }
    Mock::given(method("POST")).respond_with(answer).up_to_n_times(1).mount(&server).await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(201)).mount(&server).await;
    server
}

#[tokio::test]
async fn a_host_that_says_when_to_come_back_is_left_alone_until_then_by_all_runs() {
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (status, headers) in [
        (429, vec![("retry-after", "3600")]),
        (503, vec![("retry-after", "Sun, 06 Nov 1994 09:49:37 GMT"), date]),
    ] {
        let (server, store) = (busy(status, &headers).await, MemoryStore::new());
        let client = HttpClient::builder().build().unwrap();
        // Runs that wait leave the memory after no time.
        let engine = builder(&store).provide(client).eviction_grace(Duration::ZERO).start().await.unwrap();
        let told = engine.start::<Post>(server.uri()).await.unwrap();
        assert_eq!(told.result().await.unwrap(), status);
        let waits = engine.start::<Post>(server.uri()).await.unwrap();
        let wake = loop {
            let record = store.run(waits.id()).await.unwrap().unwrap();
            if record.owner.is_none() {
                break record.wake_at.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let left = wake.duration_since(store.run(waits.id()).await.unwrap().unwrap().created_at);
        assert!((3_500..3_700).contains(&left.as_secs()), "{left:?}");
        assert!(store.entries(waits.id()).await.unwrap().is_empty(), "without an intent");
        // A step would wait for longer than its request may take: it is told so.
        let run = engine.start::<ReadIt>(server.uri()).await.unwrap();
        let error = run.result().await.unwrap_err().to_string();
        assert!(error.contains("not sent: the host asked to be left alone"), "{error}");
        assert_eq!(server.received_requests().await.unwrap().len(), 1);
        // Another process was told nothing.
        engine.shutdown().await.unwrap();
        let engine = builder(&store).provide(HttpClient::builder().build().unwrap()).start().await.unwrap();
        assert_eq!(engine.start::<Post>(server.uri()).await.unwrap().result().await.unwrap(), 201);
    }
}

step!(read_it(cx, url: String) -> u16, StepOptions { retry: Some(Retry::times(0)), ..StepOptions::of(EffectClass::Read) }, {
    Ok(cx.http().get(url).send().await?.status)
});

workflow!(ReadIt(cx, url: String) -> u16 {
    Ok(call_step::<read_it>(cx, read_it::encode(&url)).await?)
});

#[tokio::test]
async fn after_the_time_that_it_named_a_host_is_called_again() {
    let (server, store) = (busy(429, &[("retry-after", "1")]).await, MemoryStore::new());
    let client = HttpClient::builder().build().unwrap();
    let engine = builder(&store).provide(client).start().await.unwrap();
    assert_eq!(engine.start::<Post>(server.uri()).await.unwrap().result().await.unwrap(), 429);
    let told = tokio::time::Instant::now();
    let runs = [
        engine.start::<Post>(server.uri()).await.unwrap().result().await,
        engine.start::<CallStep>(server.uri()).await.unwrap().result().await,
    ];
    assert!(runs.iter().all(|status| *status.as_ref().unwrap() == 201), "{runs:?}");
    assert!(told.elapsed() >= Duration::from_millis(700), "{:?}", told.elapsed());
}

#[test]
fn a_limit_that_lets_nothing_through_is_refused() {
    let refused = |limit| HttpClient::builder().host_limit("api.example.com", limit).build().unwrap_err();
    for (limit, said) in [
        (HostLimit::new(), "neither `concurrent` nor a rate"),
        (HostLimit::new().concurrent(0), "no request at a time"),
        (HostLimit::new().per_second(0), "no request in a span of time"),
        (HostLimit::new().rate(3, Duration::ZERO), "a span of no time"),
    ] {
        assert_eq!(refused(limit), format!("the limit of api.example.com says {said}"));
    }
    let each = HttpClient::builder().each_host_limit(HostLimit::new()).build().unwrap_err();
    assert!(each.starts_with("the limit of each host"), "{each}");
}
