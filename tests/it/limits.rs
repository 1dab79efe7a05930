//! What is over a limit is refused with an error that names limit, size and place, and nothing is lost.

use std::time::Duration;

use aether::engine::Limits;
use aether::error::SendError;
use aether::prelude::*;
use aether::store::Sent;

use super::seeds::kit::in_time;

#[step(effect = "read", retry(max_retries = 0))]
async fn fail_at_length(cx: &mut StepCx, length: usize) -> Result<()> {
    let _ = cx;
    Err(Failure::permanent("x".repeat(length)))
}

#[workflow]
async fn failing(cx: &mut Cx, length: usize) -> Result<String> {
    Ok(match fail_at_length(cx, length).await {
        Err(StepError::Unrecordable(failure)) => failure.to_string(),
        other => format!("{:?}", other.map_err(|error| error.to_string().len())),
    })
}

#[workflow]
async fn failing_itself(cx: &mut Cx, length: usize) -> Result<()> {
    let _ = cx;
    Err(Failure::permanent("y".repeat(length)))
}

#[workflow]
async fn listening(cx: &mut Cx, name: String) -> Result<u32> {
    Ok(cx.signal::<u32>(&name).await?)
}

#[step(effect = "read", retry(max_retries = 0))]
async fn echo(cx: &mut StepCx, value: serde_json::Value) -> Result<serde_json::Value> {
    let _ = cx;
    Ok(serde_json::Value::Array(vec![value]))
}

#[workflow]
async fn echoing(cx: &mut Cx, depth: usize) -> Result<String> {
    let mut value = serde_json::Value::Null;
    for _ in 0..depth {
        value = serde_json::Value::Array(vec![value]);
    }
    let said = echo(cx, value.clone()).await.map_or_else(|error| error.to_string(), |_| "fine".into());
    // Dropping it level by level, as dropping it whole would need as much stack as it is deep.
    while let serde_json::Value::Array(mut inner) = value {
        value = inner.pop().unwrap_or_default();
    }
    Ok(said)
}

async fn engine(limits: Limits) -> Engine {
    Engine::builder().memory().limits(limits).start().await.unwrap()
}

fn over(result: Result<Sent, SendError>) -> (String, &'static str) {
    match result {
        Err(SendError::OverLimit(over)) => (over.to_string(), over.name),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_error_that_is_too_long_is_replaced_by_one_that_says_so() {
    let engine = engine(Limits { error: 1_000, ..Limits::default() }).await;
    let run = engine.start::<failing>(5_000).await.unwrap();
    let said = in_time(run.result()).await.unwrap();
    assert!(
        said.contains("over the limit of 1000 (`Limits::error`)") && said.contains("`0:fail_at_length`"),
        "{said}"
    );
    let run = engine.start::<failing>(500).await.unwrap();
    assert!(in_time(run.result()).await.unwrap().starts_with("Err("));
    let run = engine.start::<failing_itself>(5_000).await.unwrap();
    let said = in_time(run.result()).await.unwrap_err().to_string();
    assert!(said.contains("`Limits::error`") && said.contains("yyyy") && said.len() < 1_000, "{said}");
}

#[tokio::test]
async fn messages_names_and_reasons_have_limits() {
    let engine = engine(Limits { payload: 100, name: 64, text: 50, inbox: 3, ..Limits::default() }).await;
    let run = engine.start::<listening>("go".to_owned()).await.unwrap();
    let id = run.id().clone();
    let (said, name) = over(engine.signal(&id, &"n".repeat(100), "1", &1).await);
    assert!(name == "name" && said.contains("nnnn") && said.contains("limit of 64"), "{said}");
    assert_eq!(over(engine.signal(&id, "go", &"i".repeat(100), &1).await).1, "name");
    assert_eq!(over(engine.signal(&id, "go", "1", &"v".repeat(200)).await).1, "payload");
    assert_eq!(over(engine.cancel(&id, &"r".repeat(51), "me").await).1, "text");
    assert_eq!(over(engine.cancel(&id, "r", &"a".repeat(51)).await).1, "text");
    for n in 0..3 {
        engine.signal(&id, "other", &n.to_string(), &n).await.unwrap();
    }
    assert_eq!(over(engine.signal(&id, "other", "3", &3).await).1, "inbox");
    assert!(!run.status().await.unwrap().is_terminal(), "the run goes on");
    engine.cancel(&id, "enough", "me").await.unwrap();
    assert!(in_time(run.result()).await.unwrap_err().to_string().contains("enough"), "an end gets through");

    let run = engine.start::<listening>("s".repeat(80)).await.unwrap();
    let said = in_time(run.result()).await.unwrap_err().to_string();
    assert!(said.contains("the signal's name") && said.contains("`Limits::name`"), "{said}");
}

#[tokio::test]
async fn an_inbox_has_a_limit_in_bytes() {
    let engine = engine(Limits { inbox_bytes: 100, ..Limits::default() }).await;
    let run = engine.start::<listening>("go".to_owned()).await.unwrap();
    let id = run.id().clone();
    // A single message is within the limits of values.
    engine.signal(&id, "other", "1", &"v".repeat(200)).await.unwrap();
    let (said, name) = over(engine.signal(&id, "other", "2", &1).await);
    assert!(name == "inbox_bytes" && said.contains(id.as_str()) && said.contains("limit of 100"), "{said}");
    engine.cancel(&id, "enough", "me").await.unwrap();
    assert!(in_time(run.result()).await.unwrap_err().to_string().contains("enough"), "an end gets through");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_that_is_nested_too_deep_is_a_typed_error_wherever_it_comes_in() {
    let engine = engine(Limits::default()).await;
    for (depth, fine) in [(10, true), (126, true), (127, false), (1_000, false)] {
        let run = engine.start::<echoing>(depth).await.unwrap();
        let said = tokio::time::timeout(Duration::from_secs(60), run.result()).await.unwrap().unwrap();
        assert_eq!(said == "fine", fine, "{depth}: {said}");
        assert!(fine || said.contains("nested deeper than the limit of 127"), "{depth}: {said}");
    }
}
