//! What users, models, peers, files and rows can do to an engine: every case is a typed error that says where it
//! happened, nothing recorded is lost, and the engine goes on serving another run.

mod databases;

use std::collections::BTreeMap;
use std::time::Duration;

use aether::effect::Payload;
use aether::error::{Fault, RunError, StartError, VerifyError};
use aether::prelude::*;
use aether::store::RunFilter;
use aether::store::event::Event;
use aether::store::ledger::LedgerStatus;
use aether_effects::http::CxHttp;
use aether_effects::llm::{CxLlm, Models, OpenAiClient};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::seeds::kit::{Calls, Hand, Journal, Place, builder, in_time, run_id, stores};

/// Do nothing much.
#[step(effect = "tool")]
async fn bad_fine_step(_cx: &mut StepCx, n: u32) -> Result<u32> {
    Ok(n + 1)
}

/// A run that is as it should be.
#[workflow]
async fn bad_fine(cx: &mut Cx, n: u32) -> Result<u32> {
    Ok(bad_fine_step(cx, n).await?)
}

/// Nothing that happened to another run keeps this engine from its work.
async fn serves_another(engine: &Engine) {
    let run = engine.start::<bad_fine>(1).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 2);
}

/// The error of a failed run, which names the run and the step.
fn named<T: std::fmt::Debug>(result: std::result::Result<T, RunError>, run: &str, step: &str) -> String {
    let Err(RunError::Failed(failure)) = result else { panic!("the run should have failed: {result:?}") };
    let text = failure.to_string();
    assert!(text.contains(&format!("run `{run}`")) && text.contains(&format!("`{step}`")), "{text}");
    text
}

/// Runs that stopped say why.
fn stopped<T: std::fmt::Debug>(result: std::result::Result<T, RunError>) -> Fault {
    match result {
        Err(RunError::Stopped { fault, .. }) => *fault,
        other => panic!("the run should have stopped: {other:?}"),
    }
}

// Models.

#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
struct Plan {
    steps: u32,
}

/// Ask a model for a plan.
#[workflow]
async fn bad_plan(cx: &mut Cx) -> Result<u32> {
    Ok(cx.llm("plan").user("plan").json::<Plan>().await?.steps)
}

/// A provider that always answers this.
async fn provider(body: &str) -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(200).set_body_string(body.to_owned());
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    server
}

fn says(content: &str) -> String {
    serde_json::json!({
        "model": "m-1",
        "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }],
    })
    .to_string()
}

#[tokio::test]
async fn a_models_answer_that_is_no_json_or_of_the_wrong_shape_is_asked_for_again_and_then_an_error() {
    let cases = [
        ("<html>gateway</html>".to_owned(), "not JSON"),
        ("{\"choices\":7}".to_owned(), "wrong shape"),
        ("{}".to_owned(), "wrong shape"),
        (says("I would rather not."), "did not answer with a"),
        (says("{\"steps\":\"many\"}"), "did not answer with a"),
        (says(""), "did not answer with a"),
    ];
    let one = async |(body, expected): (String, &'static str)| {
        let (place, server) = (Place::memory(), provider(&body).await);
        let client = OpenAiClient::new(server.uri(), "key", "m-1");
        let engine =
            builder(&place.store, &Calls::default()).provide(Models::new(client)).start().await.unwrap();
        let run = engine.start::<bad_plan>(()).id("plan").await.unwrap();
        let Err(RunError::Failed(failure)) = in_time(run.result()).await else { panic!("{body}") };
        assert!(failure.to_string().contains(expected), "{failure}");
        let view = engine.view(run.id()).await.unwrap();
        let step = &view.steps[0];
        assert_eq!((step.command.as_str(), step.attempts, view.run.as_str()), ("0:llm.plan", 4, "plan"));
        assert!(step.result.as_ref().unwrap().as_ref().unwrap_err().as_str().contains(expected));
        assert_eq!(server.received_requests().await.unwrap().len(), 4);
        engine.verify(run.id()).await.unwrap();
        serves_another(&engine).await;
    };
    let [a, b, c, d, e, f] = cases.map(one);
    tokio::join!(a, b, c, d, e, f);
}

// Tools.

/// Panic.
#[step(effect = "tool")]
async fn bad_panic_step(_cx: &mut StepCx) -> Result<()> {
    let none: Vec<u32> = Vec::new();
    assert!(none[3] > 0);
    Ok(())
}

/// Call a tool that panics.
#[workflow]
async fn bad_panic(cx: &mut Cx) -> Result<()> {
    match bad_panic_step(cx).await {
        Err(StepError::Panicked(failure)) => Err(failure),
        other => panic!("{other:?}"),
    }
}

/// Panic itself.
#[workflow]
async fn bad_panic_itself(cx: &mut Cx) -> Result<()> {
    bad_fine_step(cx, 1).await?;
    panic!("the workflow is at its wits' end")
}

#[tokio::test]
async fn a_tool_that_panics_fails_its_step_and_no_more() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<bad_panic>(()).id("panic").await.unwrap();
        let text = named(in_time(run.result()).await, "panic", "0:bad_panic_step");
        assert!(text.contains("index out of bounds"), "{text}");
        // It may have done something before it panicked: its row says that nobody knows.
        assert_eq!(engine.ledger(run.id()).await.unwrap()[0].status, LedgerStatus::InDoubt);
        engine.verify(run.id()).await.unwrap();
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn a_workflow_that_panics_fails_its_run_and_no_more() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<bad_panic_itself>(()).await.unwrap();
        let Err(RunError::Failed(failure)) = in_time(run.result()).await else { panic!() };
        assert!(failure.message().contains("`bad_panic_itself` panicked: the workflow is at its wits' end"));
        assert_eq!(engine.view(run.id()).await.unwrap().steps.len(), 1, "the step before it is kept");
        engine.verify(run.id()).await.unwrap();
        serves_another(&engine).await;
    }
}

// Peers.

/// Answers every connection in the same bad way.
async fn peer(hangs: bool) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut start = [0; 16];
            let _read = stream.read(&mut start).await;
            if hangs {
                held.push(stream);
            } else {
                let _closed = stream.shutdown().await;
            }
        }
    });
    format!("http://{address}/")
}

/// Send a request that changes something.
#[workflow]
async fn bad_post(cx: &mut Cx, url: String) -> Result<u16> {
    Ok(cx.http().post(&url).timeout(Duration::from_millis(100)).send().await?.status)
}

/// Send a request that changes nothing.
#[workflow]
async fn bad_get(cx: &mut Cx, url: String) -> Result<u16> {
    Ok(cx.http().get(&url).timeout(Duration::from_millis(100)).retry(Retry::times(3)).send().await?.status)
}

#[tokio::test]
async fn a_peer_that_hangs_or_closes_leaves_a_change_in_doubt_and_a_read_failed() {
    for hangs in [true, false] {
        let (place, url) = (Place::memory(), peer(hangs).await);
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<bad_post>(url.clone()).id("post").await.unwrap();
        let text = named(in_time(run.result()).await, "post", "0:http.post");
        assert!(text.contains("not known whether"), "{text}");
        assert_eq!(engine.ledger(run.id()).await.unwrap()[0].status, LedgerStatus::InDoubt);
        engine.verify(run.id()).await.unwrap();

        let run = engine.start::<bad_get>(url).id("get").await.unwrap();
        let Err(RunError::Failed(failure)) = in_time(run.result()).await else { panic!() };
        assert!(failure.to_string().contains("no attempt left: GET http://127.0.0.1"), "{failure}");
        let view = engine.view(run.id()).await.unwrap();
        assert_eq!((view.steps[0].command.as_str(), view.steps[0].attempts), ("0:http.get", 4));
        serves_another(&engine).await;
    }
}

// Callers.

/// Keep something large, between two small things.
#[workflow]
async fn bad_large(cx: &mut Cx, size: usize) -> Result<usize> {
    bad_fine_step(cx, 1).await?;
    let text = bad_make(cx, size).await?;
    bad_fine_step(cx, 2).await?;
    Ok(text.len())
}

/// Make a large text.
#[step(effect = "read")]
async fn bad_make(_cx: &mut StepCx, size: usize) -> Result<String> {
    Ok("x".repeat(size))
}

#[tokio::test]
async fn an_id_that_is_used_again_with_another_input_is_refused() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<bad_fine>(1).id("taken").await.unwrap();
        in_time(run.result()).await.unwrap();
        let before = Journal::read(&place.store, "taken").await;
        let refused = engine.start::<bad_fine>(2).id("taken").await.unwrap_err();
        assert!(
            matches!(&refused, StartError::IdTaken { run, difference: "another input", .. } if run.as_str() == "taken")
        );
        let refused = engine.start::<bad_panic>(()).id("taken").await.unwrap_err();
        assert!(matches!(&refused, StartError::IdTaken { difference: "another workflow", .. }), "{refused}");
        let again = engine.start::<bad_fine>(1).id("taken").await.unwrap();
        assert_eq!(in_time(again.result()).await.unwrap(), 2);
        assert_eq!(Journal::read(&place.store, "taken").await, before);
        assert!(matches!(engine.start::<bad_fine>(1).id("").await, Err(StartError::Id(_))));
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn a_run_of_a_workflow_that_is_not_linked_is_kept_and_said_so() {
    for place in stores() {
        let place = place();
        Hand::begin(&place.store, "left", "gone", "{\"n\":1}").await.let_go().await;
        let before = Journal::read(&place.store, "left").await;
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.find("left").await.unwrap();
        let end = in_time(run.end()).await.unwrap();
        let aether::engine::RunEnd::Stopped(Fault::NotLinked { run, workflow, linked }) = end else {
            panic!("{end:?}")
        };
        assert_eq!((run.as_str(), &*workflow), ("left", "gone"));
        assert!(linked.contains("bad_fine"), "{linked}");
        let refused = engine.verify(&run).await;
        assert!(matches!(refused, Err(VerifyError::Fault(Fault::NotLinked { .. }))), "{refused:?}");
        serves_another(&engine).await;
        // Parked, and listed so: a program that has the workflow resumes it.
        in_time(async {
            while engine.count(RunFilter::new().parked(true)).await.unwrap() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let parked = engine.parked(RunFilter::new()).await.unwrap().runs;
        assert_eq!(parked.iter().map(|parked| parked.run.as_str()).collect::<Vec<_>>(), ["left"]);
        assert_eq!(parked[0].needs.workflow, "gone");
        let after = Journal::read(&place.store, "left").await;
        assert!(after.events.starts_with(&before.events), "{after:?}");
        assert!(matches!(after.events.last(), Some(Event::RunParked(_))), "{after:?}");
    }
}

#[tokio::test]
async fn a_recorded_input_that_no_longer_fits_stops_its_run() {
    for place in stores() {
        let place = place();
        Hand::begin(&place.store, "left", "bad_fine", "{\"n\":\"many\"}").await.let_go().await;
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.handle::<bad_fine>("left").await.unwrap();
        let fault = stopped(in_time(run.result()).await);
        // The engine may have parked it before anybody asked.
        let (run, needed, why) = match &fault {
            Fault::Input { run, workflow, .. } => (run, workflow.clone(), fault.to_string()),
            Fault::Parked { run, why, needs } => (run, needs.workflow.clone(), why.clone()),
            other => panic!("{other:?}"),
        };
        assert_eq!((run.as_str(), &*needed), ("left", "bad_fine"));
        assert!(why.contains("argument `n`: invalid type: string .., expected u32"), "{why}");
        serves_another(&engine).await;
    }
}

type NoKeys = BTreeMap<(u32, u32), u32>;

/// Take something that JSON cannot hold.
#[step(effect = "tool")]
async fn bad_take(cx: &mut StepCx, pairs: NoKeys) -> Result<usize> {
    Calls::note(cx)?;
    Ok(pairs.len())
}

/// Give something that JSON cannot hold to a step.
#[workflow]
async fn bad_arguments(cx: &mut Cx) -> Result<usize> {
    match bad_take(cx, BTreeMap::from([((1, 2), 3)])).await {
        Err(StepError::Unrecordable(failure)) => Err(failure),
        other => panic!("{other:?}"),
    }
}

/// Is given something that JSON cannot hold.
#[workflow]
async fn bad_start(cx: &mut Cx, pairs: NoKeys) -> Result<usize> {
    cx.now().await;
    Ok(pairs.len())
}

#[tokio::test]
async fn arguments_that_do_not_serialize_are_an_error_before_anything_is_called() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<bad_arguments>(()).id("arguments").await.unwrap();
        let text = named(in_time(run.result()).await, "arguments", "0:bad_take");
        assert!(text.contains("does not serialize"), "{text}");
        assert_eq!((calls.all(), engine.ledger(run.id()).await.unwrap().len()), (0, 0));
        let refused = engine.start::<bad_start>(BTreeMap::from([((1, 2), 3)])).id("input").await.unwrap_err();
        assert!(matches!(&refused, StartError::Input { workflow: "bad_start", .. }), "{refused}");
        assert!(place.store.run(&run_id("input")).await.unwrap().is_none());
        engine.verify(run.id()).await.unwrap();
        serves_another(&engine).await;
    }
}

/// Measure nothing.
#[step(effect = "tool")]
async fn bad_nan_step(cx: &mut StepCx) -> Result<f64> {
    Calls::note(cx)?;
    Ok(f64::NAN)
}

/// Take in what is no number.
#[workflow]
async fn bad_nan(cx: &mut Cx) -> Result<()> {
    match bad_nan_step(cx).await {
        Err(StepError::Unrecordable(failure)) => Err(failure),
        other => panic!("{other:?}"),
    }
}

/// Give what is no number.
#[workflow]
async fn bad_nan_result(cx: &mut Cx) -> Result<f64> {
    cx.now().await;
    Ok(f64::NAN)
}

#[tokio::test]
async fn results_that_do_not_round_trip_are_the_same_error_on_every_replay() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).start().await.unwrap();
        let run = engine.start::<bad_nan>(()).id("nan").await.unwrap();
        let text = named(in_time(run.result()).await, "nan", "0:bad_nan_step");
        assert!(text.contains("does not round-trip"), "{text}");
        engine.verify(run.id()).await.unwrap();
        assert_eq!(calls.all(), 1);
        let run = engine.start::<bad_nan_result>(()).id("nan-result").await.unwrap();
        let end = in_time(run.result()).await;
        assert!(
            matches!(&end, Err(RunError::Unreadable { run, .. }) if run.as_str() == "nan-result"),
            "{end:?}"
        );
        engine.verify(run.id()).await.unwrap();
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn a_value_over_the_limit_names_the_limit_and_the_step() {
    for place in stores() {
        let place = place();
        let limits = aether::engine::Limits { payload: 1000, ..aether::engine::Limits::default() };
        let engine = builder(&place.store, &Calls::default()).limits(limits).start().await.unwrap();
        let run = engine.start::<bad_large>(2000).id("large").await.unwrap();
        let text = named(in_time(run.result()).await, "large", "1:bad_make");
        assert!(text.contains("over the limit of 1000"), "{text}");
        let input = Payload::encode(&"x".repeat(2000)).unwrap();
        let refused = engine.start::<bad_get>(input.as_str().to_owned()).await.unwrap_err();
        assert!(matches!(refused, StartError::TooLarge { limit: 1000, .. }), "{refused}");
        serves_another(&engine).await;
    }
}
