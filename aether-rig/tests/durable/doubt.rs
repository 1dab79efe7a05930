//! Answers that are lost while the process lives: a tool that changes the world is in doubt, and is not called again.

use std::sync::Arc;
use std::time::Duration;

use aether::prelude::*;
use aether::rig::Contract;
use aether::store::{MemoryStore, Store};
use serde_json::Value;
use wiremock::ResponseTemplate;

use crate::kit::{
    Asked, Became, Declared, Script, World, answer, complain, engine, in_time, results, support,
};

/// Longer than the tools wait for an answer.
const TOO_LATE: Duration = Duration::from_secs(30);

/// Uses every tool once, and says what it was told.
fn each_once() -> Script {
    Arc::new(|number, question| match number {
        0 => answer(None, &[("c1", "search", r#"{"about":"a"}"#)]),
        1 => answer(None, &[("c2", "refund", r#"{"about":"b"}"#)]),
        _ => answer(Some(&results(question).join(" | ")), &[]),
    })
}

async fn after(
    script: Script,
    tool: &'static str,
    reply: impl Fn() -> ResponseTemplate + Send + Sync + 'static,
    declared: Declared,
) -> (Asked, Became) {
    let world = World::with_tools(
        script,
        move |name| {
            if name == tool { reply() } else { ResponseTemplate::new(200) }
        },
    )
    .await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let became = complain(&engine(&store, world.agents()).await, declared).await;
    (world.asked(), became)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answer_is_lost_is_in_doubt_and_the_model_is_not_told() {
    let late = || ResponseTemplate::new(200).set_delay(TOO_LATE);
    let (asked, became) = after(support(), "refund", late, Declared::Not).await;
    assert!(matches!(became, Became::InDoubt(_)), "{became:?}");
    assert_eq!((asked.calls("refund"), asked.questions()), (1, 2));
    // The same with a server that fails half-way.
    let (asked, became) = after(support(), "refund", || ResponseTemplate::new(500), Declared::Not).await;
    assert!(matches!(became, Became::InDoubt(_)), "{became:?}");
    assert_eq!((asked.calls("refund"), asked.questions()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_call_is_made_again_under_its_key() {
    let times = std::sync::atomic::AtomicUsize::new(0);
    let first_fails = move || match times.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => ResponseTemplate::new(500),
        _ => ResponseTemplate::new(200),
    };
    let (asked, became) = after(support(), "refund", first_fails, Declared::Idempotent).await;
    assert_eq!(became, Became::Answered("done after 4 results".into()));
    let keys = &asked.tools["refund"];
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
    assert!(keys[0].starts_with("aether:r:"), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_is_told_to_the_model_without_the_message_for_operators() {
    let (asked, became) = after(each_once(), "refund", || ResponseTemplate::new(422), Declared::Not).await;
    let Became::Answered(told) = became else { panic!("{became:?}") };
    assert!(told.contains("the tool failed") && !told.contains("422"), "{told}");
    assert_eq!((asked.calls("refund"), asked.questions()), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_tried_again() {
    let times = std::sync::atomic::AtomicUsize::new(0);
    let first_fails = move || match times.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => ResponseTemplate::new(500),
        _ => ResponseTemplate::new(200),
    };
    let (asked, became) = after(each_once(), "search", first_fails, Declared::Not).await;
    assert!(matches!(became, Became::Answered(_)), "{became:?}");
    assert_eq!((asked.calls("search"), asked.calls("refund"), asked.questions()), (2, 1, 3));
}

/// Refunds when somebody agrees.
#[workflow]
async fn asks_first(cx: &mut Cx) -> Result<String> {
    let contract = Contract::tool().needs_approval();
    Ok(cx.rig("support").contract("refund", contract).prompt("Refund me.").await?.output())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_agrees_before_a_tool_is_called_also_over_a_restart() {
    let world = World::start(each_once()).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = engine(&store, world.agents()).await;
    let run = first.start::<asks_first>(()).id("r").await.unwrap();
    let waits = in_time(async {
        loop {
            let waits = first.pending(run.id()).await.unwrap();
            if !waits.is_empty() {
                return waits;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(waits.len(), 1);
    first.shutdown().await.unwrap();
    let second = engine(&store, world.agents()).await;
    assert_eq!(world.asked().calls("refund"), 0);
    let waits = second.pending(run.id()).await.unwrap();
    second.approve(run.id(), &waits[0], "ann").await.unwrap();
    let run = second.start::<asks_first>(()).id("r").await.unwrap();
    assert!(in_time(run.result()).await.unwrap().contains("refund"));
    assert_eq!((world.asked().calls("refund"), world.asked().questions()), (1, 3));
}

/// The arguments of a tool as a model may write them.
fn with_arguments(arguments: &'static str) -> Script {
    Arc::new(move |number, question: &Value| match number {
        0 => answer(None, &[("c1", "refund", arguments)]),
        _ => answer(Some(&results(question).join(" | ")), &[]),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_are_no_object_or_do_not_fit_reach_no_tool() {
    for (arguments, says) in
        [("[1]", "not a JSON object"), ("{\"about\":", "not a JSON object"), ("{}", "about")]
    {
        let world = World::start(with_arguments(arguments)).await;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let became = complain(&engine(&store, world.agents()).await, Declared::Not).await;
        let Became::Answered(told) = became else { panic!("{arguments}: {became:?}") };
        assert!(told.contains(says), "{arguments}: {told}");
        assert_eq!((world.asked().calls("refund"), world.asked().questions()), (0, 2), "{arguments}");
    }
}

/// The first answer of the provider, and how often it was asked.
async fn provider_says_first(reply: ResponseTemplate) -> (usize, Became) {
    let world = World::start(support()).await;
    let first = wiremock::Mock::given(wiremock::matchers::path("/v1/chat/completions")).respond_with(reply);
    first.up_to_n_times(1).with_priority(1).mount(&world.server).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let became = complain(&engine(&store, world.agents()).await, Declared::Not).await;
    let requests = world.server.received_requests().await.unwrap();
    (requests.iter().filter(|request| request.url.path() == "/v1/chat/completions").count(), became)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    for (status, wait) in [(429, "0"), (503, "0"), (500, "0")] {
        let busy = ResponseTemplate::new(status).insert_header("retry-after", wait);
        let (asked, became) = provider_says_first(busy).await;
        assert_eq!((asked, became), (4, Became::Answered("done after 4 results".into())), "{status}");
    }
    let (asked, became) = provider_says_first(ResponseTemplate::new(401)).await;
    assert!(matches!(became, Became::Failed(_)), "{became:?}");
    assert_eq!(asked, 1);
}
