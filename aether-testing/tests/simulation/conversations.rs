//! Scripted conversations: which question gets which reply, behind compactions, hand-offs and histories, and when it fails.

use aether::agent::{AgentReport, AgentSpec, Compaction};
use aether::llm::{ChatMessage, ModelError};
use aether::prelude::*;
use aether_testing::{Sim, call_named, call_tool, say};

use crate::not_stubbed;

/// Read a page.
#[step(effect = "read")]
async fn leaf(_cx: &mut StepCx, page: u32) -> Result<String> {
    not_stubbed(page)
}

/// Pay an order.
#[step(effect = "tool")]
async fn pay_order(_cx: &mut StepCx, order: u32) -> Result<String> {
    not_stubbed(order)
}

/// Read with an agent that forgets.
#[workflow]
async fn forgetful(cx: &mut Cx, elides: bool) -> Result<AgentReport> {
    let new = if elides { Compaction::elide_above } else { Compaction::summarize_above };
    Ok(cx.agent("reader").tools(leaf::tool()).compact(new(150).keep(0)).run("Read all.").await?)
}

#[tokio::test]
async fn replies_go_on_behind_a_compaction() {
    let replies = [call_tool::<leaf>(1), call_tool::<leaf>(2), call_tool::<leaf>(3), say("done")];
    let sim = Sim::new::<forgetful>()
        .conversation("reader", replies)
        .model_for("reader.compact", |_| "what was read")
        .stub::<leaf>(|page| Ok(format!("page {page} {}", "x".repeat(600))));
    for elides in [false, true] {
        let report = sim.run(elides).await;
        let answer = report.assert_completed();
        assert_eq!((&*answer.answer, answer.turns, answer.compactions), ("done", 4, 3));
        report.assert_called_with::<leaf>(&[1, 2, 3]);
        sim.crash_at_every_boundary(elides).await;
    }
}

/// Answer with two agents that hand over to each other.
#[workflow]
async fn handed_over(cx: &mut Cx) -> Result<AgentReport> {
    let billing = AgentSpec::new("billing").tools(pay_order::tool()).hand_off_named("support");
    let support = cx.agent("support").system("You read.").tools(leaf::tool()).hand_off(billing);
    Ok(support.run("Pay 7.").await?)
}

#[tokio::test]
async fn each_agent_has_replies_of_its_own() {
    let support = [call_tool::<leaf>(1), call_named("hand_off_to_billing", "{}"), say("It is paid.")];
    let sim = Sim::new::<handed_over>()
        .conversation("support", support)
        .conversation("billing", [call_tool::<pay_order>(7), call_named("hand_off_to_support", "{}")])
        .stub::<leaf>(|page| Ok(format!("page {page}")))
        .stub::<pay_order>(|order| Ok(format!("paid {order}")));
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed().answer, "It is paid.");
    report.assert_calls::<leaf>(1);
    report.assert_calls::<pay_order>(1);
    sim.crash_at_every_boundary(()).await;
}

/// Chat twice in one conversation, behind words from elsewhere.
#[workflow]
async fn chatted(cx: &mut Cx) -> Result<Vec<String>> {
    let before =
        [ChatMessage::user("Hello."), ChatMessage::assistant("Hello!"), ChatMessage::assistant("Yes?")];
    let first = cx.agent("chat").tools(leaf::tool()).history(before).run("Page 1?").await?;
    let second = cx.agent("chat").system("Be brief.").history(first.transcript).run("And now?").await?;
    let other = cx.agent("chat").tools(leaf::tool()).run("Page 1?").await?;
    Ok(vec![first.answer, second.answer, other.answer])
}

#[tokio::test]
async fn a_history_counts_only_where_it_continues_a_conversation_of_the_run() {
    let sim = Sim::new::<chatted>()
        .conversation("chat", [call_tool::<leaf>(1), say("It is read."), say("Still.")])
        .stub::<leaf>(|page| Ok(format!("page {page}")));
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), &["It is read.", "Still.", "It is read."]);
    report.assert_calls::<leaf>(2);
    sim.crash_at_every_boundary(()).await;
}

/// Read a page with a model that another one follows.
#[workflow]
async fn followed(cx: &mut Cx) -> Result<AgentReport> {
    Ok(cx.agent("reader").model("large").or("small").tools(leaf::tool()).run("Read.").await?)
}

#[tokio::test]
async fn a_reply_fails_once_where_it_says_so_and_else_at_every_attempt() {
    let broken = || ModelError::Network { message: "connection reset".into() };
    let sim = Sim::new::<followed>().stub::<leaf>(|page| Ok(format!("page {page}")));
    let replies =
        [call_tool::<leaf>(1), say("On pa").breaks_off(broken()).once(), call_tool::<leaf>(2), say("done")];
    let once = sim.clone().conversation("reader", replies);
    let report = once.run(()).await;
    assert_eq!(report.assert_completed().answer, "done");
    report.assert_called_with::<leaf>(&[1, 2]);
    assert_eq!(report.model_requests("reader").len(), 4);
    once.crash_at_every_boundary(()).await;

    let always = sim
        .clone()
        .conversation("reader", [call_tool::<leaf>(1), say("On pa").breaks_off(broken()), say("no")]);
    let report = always.run(()).await;
    assert!(report.assert_failed().to_string().contains("connection reset"));

    // What the first model used up is not said again by the one that follows it.
    let gone = || ModelError::BadRequest { status: 404, message: "no such model".into() };
    let replies = [say("").breaks_off(gone()).once(), call_tool::<leaf>(1), say("done")];
    let small = sim.conversation("reader", replies);
    let report = small.run(()).await;
    assert_eq!(report.assert_completed().answer, "done");
    report.assert_calls::<leaf>(1);
    small.crash_at_every_boundary(()).await;
}
