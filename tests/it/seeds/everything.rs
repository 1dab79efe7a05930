//! A workflow that makes contact with the world in every way there is, and counters on each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aether::engine::{EngineBuilder, Environment, SystemEnvironment};
use aether::prelude::*;
use aether_effects::http::CxHttp;
use aether_effects::llm::{ChatRequest, ChatResponse, CxLlm, ModelClient, ModelError, Models};
use futures_core_free::BoxFuture;
use jiff::Timestamp;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::chain::{act, call_out, look, post, seed_child, think};
use super::kit::{Calls, Journal, Place, in_time};

/// The future type that traits here ask for.
mod futures_core_free {
    pub(super) type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
}

static ADDED: AtomicU64 = AtomicU64::new(0);

/// Counted outside of the body, which may touch nothing.
fn count_addition(sum: u32) -> u32 {
    ADDED.fetch_add(1, Ordering::SeqCst);
    sum
}

/// How often the pure step was computed in this process.
pub(crate) fn additions() -> u64 {
    ADDED.load(Ordering::SeqCst)
}

/// Add up; touches nothing.
#[step(effect = "pure")]
async fn add(a: u32, b: u32) -> Result<u32> {
    Ok(count_addition(a + b))
}

/// What a run of [`seed_everything`] gives: all that it was handed out.
pub(crate) type Everything = (String, Vec<String>);

/// Make contact with the world in every way.
#[workflow]
pub(crate) async fn seed_everything(cx: &mut Cx, base: String) -> Result<Everything> {
    let (now, id, number) = (cx.now().await, cx.uuid().await, cx.random().await);
    let seed = cx.seed().await;
    let plan =
        cx.llm("plan").model("m-1").system("be brief").user("plan it").temperature(0.25).text().await?;
    let found = look(cx, 1).await?;
    let done = act(cx, 2).await?;
    let thought = think(cx, 3).await?;
    let called = call_out(cx, 4).await?;
    let posted = post(cx, 5).await?;
    let got = cx.http().get(format!("{base}/item")).send().await?;
    let sent = cx.http().post(format!("{base}/orders")).json(&plan).send().await?;
    let below = cx.child::<seed_child>(6).await?;
    cx.sleep(Duration::from_millis(1)).await;
    let sum = add(cx, 1, 2).await?;
    let steps = [found, done, thought, called, posted, below].map(|value| value.as_str().to_owned());
    let drawn = format!("{now} {id} {number} {seed:?} {plan} {} {} {sum}", got.text(), sent.status);
    Ok((drawn, steps.into()))
}

/// Names of its recorded commands, in order.
pub(crate) const COMMANDS: [&str; 14] = [
    "now",
    "uuid",
    "random",
    "seed",
    "llm.plan",
    "look",
    "act",
    "think",
    "call_out",
    "post",
    "http.get",
    "http.post",
    "seed_child",
    "sleep",
];

/// A model that counts.
#[derive(Debug)]
struct Planner(Calls);

impl ModelClient for Planner {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, std::result::Result<ChatResponse, ModelError>> {
        self.0.add("model", &request.call);
        let content = Some("search, then answer".to_owned());
        let answer = ChatResponse { model: "m-1".into(), content, ..ChatResponse::default() };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// A world that counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountingEnvironment {
    readings: Arc<AtomicU64>,
    draws: Arc<AtomicU64>,
}

impl CountingEnvironment {
    /// Clock readings, and draws of random bytes.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.readings.load(Ordering::SeqCst), self.draws.load(Ordering::SeqCst))
    }
}

impl Environment for CountingEnvironment {
    fn now(&self) -> Timestamp {
        self.readings.fetch_add(1, Ordering::SeqCst);
        SystemEnvironment.now()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.draws.fetch_add(1, Ordering::SeqCst);
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        SystemEnvironment.sleep_until(until)
    }
}

/// Everything outside, counted.
pub(crate) struct Outside {
    pub(crate) calls: Calls,
    pub(crate) world: CountingEnvironment,
    pub(crate) server: MockServer,
}

impl Outside {
    pub(crate) async fn new() -> Self {
        let server = MockServer::start().await;
        let item = ResponseTemplate::new(200).set_body_string("an item");
        Mock::given(method("GET")).respond_with(item).mount(&server).await;
        Mock::given(method("POST")).respond_with(ResponseTemplate::new(201)).mount(&server).await;
        Self { calls: Calls::default(), world: CountingEnvironment::default(), server }
    }

    /// Calls of bodies and models, and requests to the server.
    pub(crate) async fn contacts(&self) -> (usize, usize) {
        (self.calls.all(), self.server.received_requests().await.unwrap().len())
    }

    /// An engine in this world that has everything and looks for work only when told.
    pub(crate) fn builder(&self, place: &Place) -> EngineBuilder {
        let hour = Duration::from_secs(3600);
        Engine::builder()
            .environment(Arc::new(self.world.clone()))
            .store(place.store.clone())
            .provide(place.store.clone())
            .provide(self.calls.clone())
            .provide(Models::new(Planner(self.calls.clone())))
            .poll_interval(hour)
            .lease(hour)
    }

    /// Runs everything once, to its end, as run `all`.
    pub(crate) async fn run(&self, place: &Place) -> (Engine, Everything, Journal) {
        let engine = self.builder(place).start().await.unwrap();
        let run = engine.start::<seed_everything>(self.server.uri()).id("all").await.unwrap();
        let result = in_time(run.result()).await.unwrap();
        let journal = Journal::read(&place.store, "all").await;
        (engine, result, journal)
    }
}
