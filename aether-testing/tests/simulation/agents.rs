//! Agents that hand over and summarize, killed at every boundary, and with every fault of the store.

use aether::agent::{AgentReport, AgentSpec, Compaction};
use aether::llm::{ChatMessage, ChatRequest};
use aether::prelude::*;
use aether_testing::{Reply, Sim, call_named, call_tool, say};

use crate::not_stubbed;

/// Read a page.
#[step(effect = "read")]
async fn read_page(_cx: &mut StepCx, page: u32) -> Result<String> {
    not_stubbed(page)
}

/// Refund an order.
#[step(effect = "tool")]
async fn refund_order(_cx: &mut StepCx, order: u32) -> Result<String> {
    not_stubbed(order)
}

/// Answer a complaint, with an agent that reads and one that pays.
#[workflow]
async fn complaint(cx: &mut Cx, text: String) -> Result<AgentReport> {
    let billing = AgentSpec::new("billing").tools(refund_order::tool()).hand_off_named("support");
    let support = cx.agent("support").system("You read.").tools(read_page::tool()).hand_off(billing);
    Ok(support.compact(Compaction::summarize_above(200).keep(2)).run(text).await?)
}

fn said(request: &ChatRequest, part: &str) -> bool {
    let is_said = |message: &ChatMessage| match message {
        ChatMessage::Tool { content, .. } | ChatMessage::User { content, .. } => content.contains(part),
        _ => false,
    };
    request.messages.iter().any(is_said)
}

fn support(request: &ChatRequest) -> Reply {
    if said(request, "refunded 7") {
        return say("It is paid.");
    }
    match (said(request, "page 1"), said(request, "page 2")) {
        (_, true) => call_named("hand_off_to_billing", r#"{"reason":"order 7"}"#),
        (true, _) => call_tool::<read_page>(2),
        _ => call_tool::<read_page>(1),
    }
}

fn billing(request: &ChatRequest) -> Reply {
    if said(request, "refunded 7") {
        return call_named("hand_off_to_support", "{}");
    }
    call_tool::<refund_order>(7)
}

fn scripted(sim: Sim<complaint>) -> Sim<complaint> {
    sim.model_for("support", support)
        .model_for("billing", billing)
        .model_for("support.compact", |_| "page 1 was read")
        .model_for("billing.compact", |_| "page 1 and page 2 were read")
        .stub::<read_page>(|page| Ok(format!("page {page} {}", "x".repeat(300))))
        .stub::<refund_order>(|order| Ok(format!("refunded {order}")))
}

#[aether::test]
async fn hand_offs_and_summaries_survive_every_crash_and_every_fault(sim: Sim<complaint>) {
    let sim = scripted(sim);
    let run = sim.run("Where is my money?".into()).await;
    let report = run.assert_completed();
    assert_eq!((&*report.answer, report.handed_to()), ("It is paid.", Some("support")));
    assert_eq!(report.hand_offs.len(), 2);
    assert!(report.compactions > 0, "{report:?}");
    run.assert_calls::<read_page>(2);
    run.assert_calls::<refund_order>(1);
    let summaries = run.model_requests("support.compact").len() + run.model_requests("billing.compact").len();
    assert_eq!(summaries, report.compactions as usize);
    assert!(matches!(run.verified, Some(Ok(_))), "{:?}", run.verified);

    let crashed = sim.crash_at_every_append("Where is my money?".into()).await;
    assert!(!crashed.in_doubt.is_empty(), "between intent and outcome of the refund: {crashed:?}");
    sim.fail_at_every_call("Where is my money?".into()).await;
}

/// Ask two models of one name at once.
#[workflow]
async fn asked_at_once(cx: &mut Cx) -> Result<Vec<String>> {
    let (left, right) = cx
        .join((
            async |cx: &mut Cx| cx.llm("rate").user("left").text().await,
            async |cx: &mut Cx| cx.llm("rate").user("right").text().await,
        ))
        .await;
    let mut said = vec![left?, right?];
    said.sort();
    Ok(said)
}

#[tokio::test]
async fn questions_that_are_asked_at_once_get_answers_of_their_own() {
    let sim = Sim::new::<asked_at_once>().model_seq("rate", ["one", "two"]);
    assert_eq!(sim.run(()).await.assert_completed(), &["one", "two"]);
    let each = |report: &aether_testing::SimReport<asked_at_once>| {
        assert_eq!(report.assert_completed(), &["one", "two"]);
    };
    sim.every_schedule((), 60).check(each).await;
}
