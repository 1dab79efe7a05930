//! When the next attempt is due: as the policy says, shortened by chance, and not before the other side asks for it.

use std::time::Duration;

use aether::error::{Classify, FailureClass};
use aether::id::RunId;
use aether::prelude::*;
use aether::store::event::Event;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::seeds::kit::in_time;

/// An error type of a program's own.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Throttled;

impl std::fmt::Display for Throttled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("throttled")
    }
}

impl Classify for Throttled {
    fn class(&self) -> FailureClass {
        FailureClass::Retryable
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }
}

#[step(effect = "read", retry(max_retries = 1, delay = "1ms"))]
async fn throttled(cx: &mut StepCx) -> Result<(), Throttled> {
    let _ = cx;
    Err(Throttled)
}

#[workflow]
async fn throttling(cx: &mut Cx) -> Result<String> {
    Ok(throttled(cx).await.unwrap_err().to_string())
}

#[step(effect = "read", retry(max_retries = 1, delay = "1ms"))]
async fn fetch(cx: &mut StepCx, url: String) -> Result<String> {
    Ok(cx.http().get(&url).send().await?.error_for_status()?.text().to_owned())
}

#[workflow]
async fn fetching(cx: &mut Cx, url: String) -> Result<String> {
    Ok(fetch(cx, url).await?)
}

#[step(effect = "read", retry(max_retries = 3, delay = "20ms", factor = 1.0, jitter = 1.0))]
async fn unlucky(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Err(Failure::retryable("no"))
}

#[workflow]
async fn trying(cx: &mut Cx) -> Result<()> {
    Ok(unlucky(cx).await?)
}

/// The recorded waits of a run.
async fn waits(engine: &Engine, run: &str) -> Vec<Duration> {
    let frames = engine.store().load(&RunId::new(run).unwrap(), 0).await.unwrap();
    let mut waits = Vec::new();
    for frame in frames {
        for event in frame.events().unwrap() {
            if let Event::StepRetried(e) = event {
                waits.push(Duration::try_from(e.due.duration_since(frame.at)).unwrap_or_default());
            }
        }
    }
    waits
}

#[tokio::test]
async fn an_error_of_the_programs_own_says_how_long_to_wait() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let run = engine.start::<throttling>(()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "no attempt left: throttled");
    let waits = waits(&engine, "r").await;
    // The journal's time is taken a moment after the wait is computed, and a slow machine makes it a long one.
    assert!(waits.len() == 1 && waits[0] > Duration::from_millis(500), "{waits:?}");
}

#[tokio::test]
async fn a_servers_retry_after_is_the_least_wait() {
    let server = MockServer::start().await;
    let busy = ResponseTemplate::new(429).insert_header("retry-after", "2");
    Mock::given(method("GET")).respond_with(busy).up_to_n_times(1).mount(&server).await;
    Mock::given(method("GET"))
        .respond_with(ResponseTemplate::new(200).set_body_string("fine"))
        .mount(&server)
        .await;
    let engine = Engine::builder().memory().start().await.unwrap();
    let run = engine.start::<fetching>(server.uri()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "fine");
    let waits = waits(&engine, "r").await;
    assert!(waits.len() == 1 && waits[0] > Duration::from_millis(500), "{waits:?}");
}

#[tokio::test]
async fn waits_are_shortened_by_chance() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let mut all = Vec::new();
    for run in ["a", "b", "c"] {
        let handle = engine.start::<trying>(()).id(run).await.unwrap();
        in_time(handle.result()).await.unwrap_err();
        all.extend(waits(&engine, run).await);
    }
    assert_eq!(all.len(), 9);
    assert!(all.iter().all(|wait| *wait <= Duration::from_millis(20)), "{all:?}");
    // Nine draws above nine tenths of the wait have a chance of one in a thousand million.
    assert!(all.iter().any(|wait| *wait < Duration::from_millis(18)), "{all:?}");
}
