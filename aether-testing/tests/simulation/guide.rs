//! The code of `docs/testing.md`, compiled and run.

use std::time::Duration;

use aether::llm::{ChatMessage, ModelError};
use aether::people::Approvals;
use aether::prelude::*;
use aether::stream::StreamEvent;
use aether_testing::{Sim, call_tool, delayed, say, say_in_pieces};
use serde_json::json;

/// Search the archive.
#[step(effect = "read")]
async fn search(cx: &mut StepCx, query: &str) -> Result<Vec<String>> {
    Ok(cx.http().get("https://archive.example/").query(&[("q", query)]).send().await?.json()?)
}

/// Send an e-mail to a customer.
#[step(effect = "tool", approval = "required")]
async fn send_email(cx: &mut StepCx, to: &str, body: &str) -> Result<String> {
    let mail = json!({ "to": to, "body": body });
    Ok(cx.http().post("https://mail.example/").json(&mail).send().await?.text())
}

/// Look into a ticket, wait a day, and write to the customer.
#[workflow]
async fn triage(cx: &mut Cx, ticket: String) -> Result<String> {
    let found = search(cx, &ticket).await?;
    cx.sleep(Duration::from_secs(24 * 3600)).await;
    Ok(send_email(cx, "ann@example.org", &found.join(", ")).await?)
}

#[aether::test]
async fn a_ticket_is_answered_after_a_day(sim: Sim<triage>) {
    let sim = sim
        .stub::<search>(|query| Ok(vec![format!("about {query}")]))
        .approves::<send_email>("bob")
        .stub::<send_email>(|(to, _body)| Ok(format!("sent to {to}")));

    let report = sim.run("login".into()).await;

    assert_eq!(report.assert_completed(), "sent to ann@example.org");
    report.assert_effects(&["search", "sleep", "send_email"]);
    report.assert_called_with::<send_email>(&[("ann@example.org".into(), "about login".into())]);
    report.assert_took(Duration::from_secs(24 * 3600));
}

fn answered(sim: Sim<triage>) -> Sim<triage> {
    let sim = sim.stub::<search>(|query| Ok(vec![query])).approves::<send_email>("bob");
    sim.stub::<send_email>(|(to, _)| Ok(to))
}

#[aether::test]
async fn steps_fail_in_many_ways(sim: Sim<triage>) {
    let sim = answered(sim)
        .when::<search>(|query| query.is_empty())
        .stub(|_| Err(Failure::permanent("an empty query")))
        .when::<search>(|query| query == "login")
        .stub_seq(vec![Err(Failure::retryable("busy")), Ok(vec![])])
        .fail_times::<search>(2, Failure::retryable("busy"));

    assert!(sim.run(String::new()).await.assert_failed().to_string().contains("an empty query"));
    sim.run("login".into()).await.assert_calls::<search>(2);
    sim.run("keys".into()).await.assert_calls::<search>(3);

    let report = sim.in_doubt::<send_email>().run("keys".into()).await;
    report.assert_in_doubt::<send_email>(1);
}

#[aether::test]
async fn a_stub_may_wait(sim: Sim<triage>) {
    let sim = answered(sim).stub_async::<search>(|_cx: StepCx, query: String| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(vec![query])
        })
    });
    sim.run("login".into()).await.assert_took(Duration::from_secs(24 * 3600 + 600));
}

/// Write the report of a day.
#[workflow]
async fn daily_report(cx: &mut Cx) -> Result<String> {
    let tick = cx.scheduled_for().ok_or_else(|| Failure::permanent("this run has no tick"))?;
    Ok(format!("report of {}", tick.strftime("%F")))
}

#[aether::test]
async fn a_report_is_that_of_its_tick(sim: Sim<daily_report>) {
    let sim = sim.id("schedule:reports:2026-11-22T02:00:00Z").at("2026-11-22T02:00:05Z".parse().unwrap());
    assert_eq!(sim.run(()).await.assert_completed(), "report of 2026-11-22");
}

#[aether::test]
async fn nobody_is_there_to_approve(sim: Sim<triage>) {
    let week = Duration::from_secs(7 * 24 * 3600);
    let sim = sim.stub::<search>(|query| Ok(vec![query])).approvals(Approvals::new().expires(week));

    let forgotten = sim.clone().try_run("login".into()).await.unwrap_err();
    assert!(forgotten.to_string().contains(r#"add `.approves::<send_email>("ann")`"#));

    let report = sim.nobody_answers().run("login".into()).await;
    assert!(report.assert_failed().to_string().contains("in time"));
}

#[aether::test]
async fn people_take_days_edit_and_refuse(sim: Sim<triage>) {
    let slow = answered(sim).people_take(Duration::from_secs(3 * 24 * 3600));
    slow.run("login".into()).await.assert_took(Duration::from_secs(4 * 24 * 3600));

    let edited = slow.clone().edits::<send_email>(|(_, body)| ("eve@example.org".into(), body));
    assert_eq!(edited.run("login".into()).await.assert_completed(), "eve@example.org");

    let refused = slow.rejects::<send_email>("too early").run("login".into()).await;
    assert!(refused.assert_failed().to_string().contains("too early"));
    refused.assert_calls::<send_email>(0);
}

#[aether::test]
async fn a_crash_changes_nothing(sim: Sim<triage>) {
    let report = answered(sim).crash_at_every_append("login".into()).await;
    assert!(report.same.len() > report.in_doubt.len());
}

#[aether::test]
async fn the_journal_is_pinned(sim: Sim<triage>) {
    let report = answered(sim).at("2026-03-29T00:00:00Z".parse().unwrap()).run("login".into()).await;
    report.assert_journal(
        r#"
        run_created input={"ticket":"login"}
        node_started 0:search
        command_committed 0:search outcome="success" result=["login"]
        node_finished 0:search
        step_committed 0:search
        timer_scheduled 1:sleep due="+1d"
        run_waiting
        run_requeued
        timer_fired 1:sleep
        node_started 2:send_email
        approval_requested 2:send_email
        approval_decided 2:send_email actor="bob" decision="approved"
        tool_invocation_started 2:send_email
        tool_invocation_finished 2:send_email
        command_committed 2:send_email outcome="side_effect_committed"
        node_finished 2:send_email
        step_committed 2:send_email
        run_completed result="ann@example.org"
        "#,
    );
}

#[workflow]
async fn helped(cx: &mut Cx, question: String) -> Result<String> {
    let tone: String = cx.llm("tone").user(&question).text().await?;
    let helper = cx.agent("helper").system(&tone).tools(search::tool());
    Ok(helper.run(&question).await?.answer)
}

#[aether::test]
async fn models_answer_by_call_by_prompt_and_in_conversation(sim: Sim<helped>) {
    let angry =
        |message: &ChatMessage| matches!(message, ChatMessage::User { content, .. } if content.contains('!'));
    let sim = sim
        .model_when(move |request| request.messages.iter().any(angry), |_| "calm them")
        .model_for("tone", |_| "be brief")
        .conversation("helper", [call_tool::<search>("keys".into()), say("Under the mat.")])
        .stub::<search>(|_| Ok(vec!["mat".into()]));

    let report = sim.run("Where are the keys!".into()).await;

    assert_eq!(report.assert_completed(), "Under the mat.");
    assert_eq!(report.model_requests("helper")[0].messages[0], ChatMessage::system("calm them"));
}

/// Answer a question while somebody watches.
#[workflow]
async fn tell(cx: &mut Cx, question: String) -> Result<String> {
    Ok(cx.llm("answer").user(question).stream("reply").text().await?)
}

#[aether::test]
async fn an_answer_that_breaks_off_is_taken_back(sim: Sim<tell>) {
    let broken = ModelError::Network { message: "connection reset".into() };
    let sim = sim
        .model_seq("answer", [say("Under the").breaks_off(broken)])
        .model(|_| say_in_pieces(["Under ", "the ", "mat."]).every(Duration::from_secs(1)));

    let report = sim.run("Where are the keys?".into()).await;

    let reply = report.stream::<String>("reply");
    assert_eq!(reply.text(), "Under the mat.");
    assert!(reply.events().iter().any(|event| matches!(event, StreamEvent::Restarted { .. })));
    sim.crash_at_every_boundary("Where are the keys?".into()).await;
}

/// Refund an order; another team has written it.
#[workflow]
async fn refunded(cx: &mut Cx, order: u32) -> Result<String> {
    Ok(cx.llm("refund").user(order.to_string()).text().await?)
}

/// Refund two orders, the second one beside other work.
#[workflow]
async fn both_refunded(cx: &mut Cx) -> Result<Vec<String>> {
    let second = cx.start_child::<refunded>(8).label("order", "8").await?;
    let first = cx.child::<refunded>(7).await.unwrap_or_else(|error| error.to_string());
    Ok(vec![first, second.result(cx).await?])
}

#[aether::test]
async fn children_are_answered_without_their_code(sim: Sim<both_refunded>) {
    let sim = sim.stub_child::<refunded>(|order| match order {
        7 => Err(Failure::permanent("the till is closed")),
        order => Ok(format!("order {order} is paid")),
    });

    let report = sim.run(()).await;

    assert_eq!(report.assert_completed(), &["the till is closed", "order 8 is paid"]);
    sim.crash_at_every_boundary(()).await;
}

#[workflow]
async fn ordered(cx: &mut Cx) -> Result<u16> {
    let stock = cx.http().get("https://shop.example/items/7").send().await?.error_for_status()?;
    let order = cx.http().post("https://shop.example/orders").json(&stock.json::<u32>()?);
    Ok(order.send().await?.status)
}

#[aether::test]
async fn servers_answer_by_method_and_url(sim: Sim<ordered>) {
    let sim = sim
        .http_seq("GET", "https://shop.example/items/*", [Err::<u16, _>(Failure::retryable("reset"))])
        .http("GET", "https://shop.example/items/*", |_| delayed(Duration::from_secs(5), (200, json!(3))))
        .http("POST", "*/orders", |call| if call.body.is_some() { 201 } else { 400 });

    assert_eq!(sim.run(()).await.assert_completed(), &201);
}

#[aether::test]
async fn a_customer_closes_the_ticket_meanwhile(sim: Sim<triage>) {
    let sim = answered(sim).meanwhile(|live| async move {
        live.sleep_until(Duration::from_secs(3600)).await;
        let view = live.engine().view(live.run_id()).await.unwrap();
        assert_eq!(view.steps.last().unwrap().command.name(), "sleep");
        live.cancel("closed by the customer", "ann").await.unwrap();
    });

    let report = sim.run("login".into()).await;

    assert!(report.assert_failed().to_string().contains("closed by the customer"));
    report.assert_calls::<send_email>(0);
}

/// What stands in the guide's Rust blocks, and nothing else, is code of this file.
#[test]
fn every_block_of_the_guide_is_in_this_file() {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let (guide, code) = (include_str!("../../../docs/testing.md"), dense(include_str!("guide.rs")));
    let blocks: Vec<&str> = guide
        .split("```rust\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(block, _)| block)
        .collect();
    assert!(blocks.len() >= 7, "{}", blocks.len());
    for block in blocks {
        assert!(code.contains(&dense(block)), "not in this file:\n{block}");
    }
}
