//! Agents that hand their conversation over to each other, over scripted models and real tools, through a real engine.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aether_core::budget::{Budget, BudgetKind};
use aether_core::definition::def::{Retry, StepOptions};
use aether_core::engine::{Engine, RunError};
use aether_core::failure::{Failure, StepError};
use aether_core::id::RunId;
use aether_core::journal::event::Event;
use aether_core::outcome::EffectClass;
use aether_core::step::{Step, Tool, ToolSchema};
use aether_core::store::Store;
use aether_core::store::memory::MemoryStore;
use aether_core::workflow::{BoxEffect, Cx};
use aether_effects::agent::{
    AgentReport, AgentSpec, CxAgent, HandOff, Parallel, Progress, RuntimeTools, Toolbox,
};
use aether_effects::llm::{ChatMessage, ChatRequest, ChatResponse, Models};
use futures_util::future::join_all;
use kit::{ByQuestion, Script, builder, calls, committed, events, says, verify};

/// How often the tools ran.
#[derive(Default)]
struct Counts {
    search: AtomicUsize,
    refund: AtomicUsize,
}

const READ: StepOptions = StepOptions { retry: Some(Retry::NONE), ..StepOptions::of(EffectClass::Read) };

step!(
    #[doc = " Search the archive."]
    search(cx, query: String) -> String, READ, {
        cx.dep::<Arc<Counts>>()?.search.fetch_add(1, Ordering::SeqCst);
        Ok(format!("about {query}"))
    }
);

step!(
    #[doc = " Look up what is owed."]
    refund(cx, order: String) -> String, READ, {
        cx.dep::<Arc<Counts>>()?.refund.fetch_add(1, Ordering::SeqCst);
        Ok(format!("refunded {order}"))
    }
);

step!(
    #[doc = " A tool with the name of a hand-off."]
    hand_off_to_billing(cx, order: String) -> String, READ, {
        let _ = cx;
        Ok(order)
    }
);

fn tool<S: Step>(argument: &str) -> Tool {
    Tool::of::<S>(ToolSchema::new().field::<String>(argument, "a text"))
}

fn billing() -> AgentSpec {
    AgentSpec::new("billing")
        .description("Knows about money.")
        .system("You refund.")
        .system("You are polite.")
        .model("small")
        .temperature(0.5)
        .tools(tool::<refund>("order"))
        .hand_off_named("support")
}

workflow!(Help(cx, prompt: String) -> AgentReport {
    let support = cx.agent("support").description("Answers the rest.").system("You help.").tools(tool::<search>("query"));
    Ok(support.hand_off(billing()).max_turns(5).run(prompt).await?)
});

struct Bench {
    engine: Engine,
    store: MemoryStore,
    counts: Arc<Counts>,
}

async fn bench(models: Models) -> Bench {
    let (store, counts) = (MemoryStore::new(), Arc::new(Counts::default()));
    let engine = builder(&store).provide(models).provide(Arc::clone(&counts)).start().await.unwrap();
    Bench { engine, store, counts }
}

/// What the tools answered, in order.
fn told(report: &AgentReport) -> Vec<&str> {
    let answers = report.transcript.iter().filter_map(|message| match message {
        ChatMessage::Tool { content, .. } => Some(content.as_str()),
        _ => None,
    });
    answers.collect()
}

fn handed(from: &str, to: &str, reason: Option<&str>, turn: u32) -> HandOff {
    HandOff { from: from.into(), to: to.into(), reason: reason.map(str::to_owned), turn }
}

#[tokio::test]
async fn another_agent_takes_over_with_its_own_words_model_and_tools() {
    let asks =
        [("hand_off_to_billing", r#"{"reason":"it is about money"}"#), ("search", r#"{"query":"keys"}"#)];
    let support = Script::new([calls(&asks)]);
    let money = Script::new([calls(&[("refund", r#"{"order":"7"}"#)]), says("done")]);
    let bench = bench(Models::new(support.clone()).with("billing", money.clone())).await;
    let run = bench.engine.start::<Help>("My money!".into()).id("run").await.unwrap();
    let report = run.result().await.unwrap();

    assert_eq!((&*report.answer, report.turns, report.usage.input_tokens), ("done", 3, 30));
    assert_eq!(report.hand_offs, [handed("support", "billing", Some("it is about money"), 1)]);
    assert_eq!(report.handed_to(), Some("billing"));
    assert_eq!(
        told(&report),
        ["The conversation is handed over to `billing`.", "about keys", "refunded 7"],
        "every call has its answer, in the model's order"
    );

    let first = &support.asked()[0];
    let names: Vec<_> = first.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["search", "hand_off_to_billing"]);
    assert!(first.tools[1].description.ends_with("Knows about money."), "{first:?}");
    assert_eq!(first.tools[1].schema["properties"]["reason"]["type"], "string");
    assert_eq!((&*first.call, &first.model, first.temperature), ("support", &None, None));

    let then = &money.asked()[0];
    assert_eq!((&*then.call, then.model.as_deref(), then.temperature), ("billing", Some("small"), Some(0.5)));
    let names: Vec<_> = then.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["refund", "hand_off_to_support"]);
    assert!(then.tools[1].description.ends_with("Answers the rest."), "{then:?}");
    let own = [ChatMessage::system("You refund."), ChatMessage::system("You are polite.")];
    assert_eq!((&then.messages[..2], &then.messages[2..3]), (&own[..], &first.messages[1..]));
    assert_eq!(
        then.messages[..],
        report.transcript[..6],
        "the same conversation, with other words before it"
    );

    verify(&bench.engine, run.id()).await;
    let recorded = committed(&events(&bench.store, run.id()).await);
    let expected = ["0.0:llm.support", "0.1:search", "0.2:llm.billing", "0.3:refund", "0.4:llm.billing"];
    assert_eq!(recorded, expected);
    let asked = support.asked().len() + money.asked().len();
    assert_eq!(
        (asked, bench.counts.search.load(Ordering::SeqCst)),
        (3, 1),
        "a replay asks and calls nothing"
    );
}

workflow!(Triage(cx, prompt: String) -> AgentReport {
    let triage = cx.agent("triage").hand_off(billing().hand_off_named("refunds")).hand_off(AgentSpec::new("refunds"));
    Ok(triage.hand_off(AgentSpec::new("support")).parallel(Parallel::Everything).run(prompt).await?)
});

#[tokio::test]
async fn the_first_hand_off_of_an_answer_that_can_be_read_counts() {
    let asks = calls(&[
        ("hand_off_to_billing", r#"{"reason":7}"#),
        ("hand_off_to_refunds", ""),
        ("hand_off_to_billing", "{}"),
        ("hand_off_to_refunds", "{}"),
    ]);
    let script = Script::new([asks, says("done")]);
    let bench = bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<Triage>("go".into()).await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!(report.hand_offs, [handed("triage", "refunds", None, 1)]);
    let told = told(&report);
    assert!(told[0].starts_with("error: bad arguments for `hand_off_to_billing`"), "{told:?}");
    assert_eq!(told[1], "The conversation is handed over to `refunds`.");
    assert_eq!(told[2..], ["error: an earlier call of this answer has handed the conversation over"; 2]);
    let last = &script.asked()[1];
    assert_eq!((&*last.call, last.tools.len()), ("refunds", 0));
    verify(&bench.engine, run.id()).await;
}

#[tokio::test]
async fn there_and_back_is_limited_by_the_turns_of_the_agent_that_was_begun() {
    let answer = |request: &ChatRequest| match &*request.call {
        "support" => calls(&[("hand_off_to_billing", "{}")]),
        _ => calls(&[("hand_off_to_support", "{}")]),
    };
    let model = ByQuestion::new(answer);
    let bench = bench(Models::new(model.clone())).await;
    let run = bench.engine.start::<Help>("go".into()).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("it must fail") };
    let over = failure.over_budget().unwrap();
    assert_eq!((&*over.budget, over.kind, over.limit), ("support", BudgetKind::Turns, 5));
    let asked: Vec<_> = model.asked().into_iter().map(|asked| asked.call).collect();
    assert_eq!(asked, ["support", "billing", "support", "billing", "support"]);
    let again = &model.asked()[2].messages;
    assert_eq!(again[0], ChatMessage::system("You help."));
    let words = again.iter().filter(|message| matches!(message, ChatMessage::System { .. })).count();
    assert_eq!((words, again.len()), (1, 6), "nothing of `billing` is left but what was said");
    verify(&bench.engine, run.id()).await;
}

workflow!(UntilMoney(cx, prompt: String) -> AgentReport {
    let money = |so_far: &Progress<'_>| so_far.agent == "billing";
    Ok(cx.agent("support").hand_off(billing()).stop_when(money).run(prompt).await?)
});

workflow!(Counted(cx, prompt: String) -> (Vec<u8>, AgentReport) {
    let answer = cx.agent("support").hand_off(billing()).stream("reply").run_json::<Vec<u8>>(prompt).await?;
    Ok((answer.value, answer.report))
});

#[tokio::test]
async fn rules_schemas_and_streams_hold_over_a_hand_off() {
    let script = Script::new([calls(&[("hand_off_to_billing", "{}")])]);
    let bench = bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<UntilMoney>("go".into()).await.unwrap();
    let report = run.result().await.unwrap();
    assert!(report.stopped && report.handed_to() == Some("billing"), "{report:?}");
    assert_eq!(script.asked().len(), 1);
    verify(&bench.engine, run.id()).await;

    let mut first = calls(&[("hand_off_to_billing", "{}")]);
    first.content = Some("I hand you over.".into());
    let script = Script::new([first, says("one"), says("[1,2]")]);
    let bench = self::bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<Counted>("go".into()).await.unwrap();
    let (value, report) = run.result().await.unwrap();
    assert_eq!((value, report.turns), (vec![1, 2], 3));
    assert!(script.asked().iter().all(|asked| asked.response_schema.is_some()));
    let (mut text, mut last) = (run.stream::<String>("reply").text(), String::new());
    while let Some(state) = text.next().await.unwrap() {
        last = state;
    }
    assert_eq!(last, "[1,2]", "and not what was said before");
    verify(&bench.engine, run.id()).await;
}

workflow!(Within(cx, calls: u64) -> AgentReport {
    let support = cx.agent("support").tools(tool::<search>("query")).hand_off(billing());
    Ok(support.budget(Budget::new().named("both").calls(calls)).run("go").await?)
});

#[tokio::test]
async fn a_budget_holds_over_a_hand_off() {
    let script = || {
        let asks = calls(&[("search", r#"{"query":"keys"}"#), ("hand_off_to_billing", "{}")]);
        Script::new([asks, calls(&[("refund", r#"{"order":"7"}"#)]), says("done")])
    };
    // Two questions and a search; a refund is the fourth call, and the last question the fifth.
    for (allowed, asked, refunds) in [(2, 1, 0), (3, 2, 0), (4, 2, 1)] {
        let script = script();
        let bench = bench(Models::new(script.clone())).await;
        let run = bench.engine.start::<Within>(allowed).await.unwrap();
        let Err(RunError::Failed(failure)) = run.result().await else { panic!("it must fail") };
        let over = failure.over_budget().unwrap();
        assert_eq!((&*over.budget, over.kind, over.spent), ("both", BudgetKind::Calls, allowed));
        assert_eq!((script.asked().len(), bench.counts.refund.load(Ordering::SeqCst)), (asked, refunds));
        verify(&bench.engine, run.id()).await;
    }
    let bench = bench(Models::new(script())).await;
    let run = bench.engine.start::<Within>(5).await.unwrap();
    assert_eq!(run.result().await.unwrap().answer, "done");
}

/// Asks for its tools by a recorded command.
#[derive(Clone)]
struct Shelf;

impl Toolbox for Shelf {
    fn open<'c>(&'c self, cx: &'c mut Cx) -> BoxEffect<'c, Result<RuntimeTools, StepError<Failure>>> {
        cx.scoped(|mut cx| async move {
            cx.random().await;
            Ok(RuntimeTools::new())
        })
    }
}

workflow!(Shelves(cx, prompt: String) -> AgentReport {
    let support = cx.agent("support").toolbox(&Shelf);
    Ok(support.hand_off(billing().toolbox(&Shelf)).run(prompt).await?)
});

#[tokio::test]
async fn a_toolbox_is_opened_when_its_agent_is_at_work_for_the_first_time() {
    let there = || calls(&[("hand_off_to_billing", "{}")]);
    let back = || calls(&[("hand_off_to_support", "{}")]);
    let bench = bench(Models::new(Script::new([there(), back(), there(), says("done")]))).await;
    let run = bench.engine.start::<Shelves>("go".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap().hand_offs.len(), 3);
    let drawn = events(&bench.store, run.id()).await.into_iter().filter_map(|event| match event {
        Event::RandomRecorded(e) => Some(e.command.to_string()),
        _ => None,
    });
    assert_eq!(drawn.collect::<Vec<_>>(), ["0.0.0:random", "0.2.0:random"]);
    verify(&bench.engine, run.id()).await;
}

workflow!(Unclear(cx, kind: String) -> AgentReport {
    let support = cx.agent("support").hand_off(billing());
    let support = match &*kind {
        "tool" => support.tools(tool::<hand_off_to_billing>("order")),
        "twice" => support.hand_off_named("billing"),
        _ => support.hand_off_named("nobody"),
    };
    Ok(support.run("go").await?)
});

#[tokio::test]
async fn names_that_are_not_clear_end_the_agent_before_a_model_is_asked() {
    let script = Script::new([says("never said")]);
    let bench = bench(Models::new(script.clone())).await;
    for (kind, says) in [
        (
            "tool",
            "two tools named `hand_off_to_billing`, from the program and from the hand-off to `billing`",
        ),
        (
            "twice",
            "two tools named `hand_off_to_billing`, from the hand-off to `billing` and from the hand-off",
        ),
        ("nobody", "agent `support` hands over to `nobody`, and there is no such agent"),
    ] {
        let run = bench.engine.start::<Unclear>(kind.into()).await.unwrap();
        let Err(RunError::Failed(failure)) = run.result().await else { panic!("it must fail") };
        assert!(failure.to_string().contains(says), "{failure}");
        verify(&bench.engine, run.id()).await;
    }
    assert!(script.asked().is_empty());
}

/// Searches, hands over, refunds, hands back, and answers.
fn conversation(request: &ChatRequest) -> ChatResponse {
    match (&*request.call, request.messages.len()) {
        ("support", 2) => calls(&[("search", r#"{"query":"a"}"#), ("hand_off_to_billing", "{}")]),
        ("billing", 6) => calls(&[("refund", r#"{"order":"7"}"#)]),
        ("billing", 8) => calls(&[("hand_off_to_support", r#"{"reason":"refunded"}"#)]),
        ("support", 9) => says("all is well"),
        other => panic!("{other:?} is not asked"),
    }
}

#[tokio::test]
async fn a_kill_anywhere_repeats_nothing_and_changes_nothing() {
    let bench = bench(Models::new(ByQuestion::new(conversation))).await;
    let run = bench.engine.start::<Help>("go".into()).id("run").await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!((report.turns, report.hand_offs.len()), (4, 2));
    let frames = bench.store.load(run.id(), 0).await.unwrap().len();
    assert!(frames > 5, "{frames} appends");
    join_all((1..frames).map(|kept| killed_behind(kept, &bench.store, &report))).await;
}

/// Continues the run from a copy of its journal that ends behind append `kept`.
async fn killed_behind(kept: usize, store: &MemoryStore, report: &AgentReport) {
    let (half, run) = (MemoryStore::new(), "run".parse::<RunId>().unwrap());
    let whole = committed(&events(store, &run).await);
    kit::copy_first(&half, store, &run, kept).await;
    let before = committed(&events(&half, &run).await).len();
    let (model, counts) = (ByQuestion::new(conversation), Arc::new(Counts::default()));
    let builder = kit::successor(&half).register::<Help>().provide(Models::new(model.clone()));
    let engine = builder.provide(Arc::clone(&counts)).start().await.unwrap();
    let again = engine.handle::<Help>("run").await.unwrap();
    assert_eq!(again.result().await.unwrap(), *report, "killed behind append {kept}");
    assert_eq!(committed(&events(&half, &run).await), whole, "killed behind append {kept}");
    let left = |name: &str| whole[before..].iter().filter(|id| id.contains(name)).count();
    let (searched, refunded) = (counts.search.load(Ordering::SeqCst), counts.refund.load(Ordering::SeqCst));
    assert_eq!(
        (model.asked().len(), searched, refunded),
        (left("llm."), left("search"), left("refund")),
        "killed behind append {kept}"
    );
    verify(&engine, &run).await;
}
