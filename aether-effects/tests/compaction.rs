//! Agents whose conversation becomes too long, over scripted models and real tools, through a real engine.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aether_core::budget::{Budget, BudgetKind};
use aether_core::definition::def::{Retry, StepOptions};
use aether_core::engine::{Engine, RunError};
use aether_core::id::RunId;
use aether_core::outcome::EffectClass;
use aether_core::step::{Tool, ToolSchema};
use aether_core::store::Store;
use aether_core::store::memory::MemoryStore;
use aether_core::workflow::Workflow;
use aether_effects::agent::{AgentReport, AgentSpec, Compaction, CxAgent};
use aether_effects::llm::{ChatMessage, ChatRequest, ChatResponse, Models, ToolCall, Usage};
use futures_util::future::join_all;
use kit::{ByQuestion, Script, builder, calls, committed, events, says, verify};

step!(
    #[doc = " Read a page."]
    read(cx, page: String) -> String, StepOptions { retry: Some(Retry::NONE), ..StepOptions::of(EffectClass::Read) }, {
        cx.dep::<Arc<AtomicUsize>>()?.fetch_add(1, Ordering::SeqCst);
        Ok(page.repeat(300))
    }
);

fn tool() -> Tool {
    Tool::of::<read>(ToolSchema::new().field::<String>("page", "a letter"))
}

workflow!(Reads(cx, compaction: Wanted) -> AgentReport {
    let agent = cx.agent("reader").system("You read.").model("large").tools(tool());
    let agent = match compaction.calls {
        Some(calls) => agent.budget(Budget::new().named("all").calls(calls)),
        None => agent,
    };
    Ok(agent.max_turns(3).stream("reply").compact(compaction.made()).run("Read all.").await?)
});

workflow!(HandsOver(cx, compaction: Wanted) -> AgentReport {
    let writer = AgentSpec::new("writer").system("You write.").model("medium");
    Ok(cx.agent("reader").tools(tool()).hand_off(writer).compact(compaction.made()).run("Read all.").await?)
});

/// A compaction as an input of a run.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Wanted {
    above: u64,
    keep: usize,
    elides: bool,
    own: bool,
    calls: Option<u64>,
}

impl Wanted {
    fn made(&self) -> Compaction {
        let new = if self.elides { Compaction::elide_above } else { Compaction::summarize_above };
        let made = new(self.above).keep(self.keep);
        if self.own { made.model("small").instruction("Be brief.").max_tokens(50) } else { made }
    }
}

fn above(tokens: u64) -> Wanted {
    Wanted { above: tokens, keep: 2, ..Wanted::default() }
}

struct Bench {
    engine: Engine,
    store: MemoryStore,
    pages: Arc<AtomicUsize>,
}

async fn bench(models: Models) -> Bench {
    let (store, pages) = (MemoryStore::new(), Arc::new(AtomicUsize::new(0)));
    let engine = builder(&store).provide(models).provide(Arc::clone(&pages)).start().await.unwrap();
    Bench { engine, store, pages }
}

/// Asks for a page, of a question that the provider counts with so many tokens.
fn asks(page: &str, tokens: u64) -> ChatResponse {
    let usage = Usage::of(tokens, 1);
    ChatResponse { usage, ..calls(&[("read", &format!(r#"{{"page":"{page}"}}"#))]) }
}

/// The names of the questions that were asked.
fn named(asked: &[ChatRequest]) -> Vec<&str> {
    asked.iter().map(|asked| &*asked.call).collect()
}

fn text(message: &ChatMessage) -> &str {
    match message {
        ChatMessage::System { content }
        | ChatMessage::User { content, .. }
        | ChatMessage::Tool { content, .. } => content,
        ChatMessage::Assistant { content, .. } => content.as_deref().unwrap_or_default(),
    }
}

#[tokio::test]
async fn the_older_part_is_summarized_by_a_recorded_question_that_is_no_turn() {
    let script = Script::new([asks("a", 10), asks("b", 10), says("A was read."), says("done")]);
    let bench = bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<Reads>(above(120)).id("run").await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!((&*report.answer, report.turns, report.compactions), ("done", 3, 1));
    assert_eq!(report.usage, Usage::of(40, 4), "the summary counts");

    let asked = script.asked();
    assert_eq!(named(&asked), ["reader", "reader", "reader.compact", "reader"]);
    let [_, before, summary, after] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(summary.model.as_deref(), Some("large"), "that of the agent");
    assert!(summary.tools.is_empty() && summary.messages.len() == 2, "{summary:?}");
    let shown = text(&summary.messages[1]);
    assert!(shown.starts_with("[user]\nRead all.\n\n[assistant]\ncalls read: {\"page\":\"a\"}"), "{shown}");
    assert!(shown.ends_with(&"a".repeat(300)) && !shown.contains('b'), "{shown}");

    assert_eq!(after.messages[..2], before.messages[..2], "the words of the agent and the first prompt stay");
    let ChatMessage::User { content, .. } = &after.messages[2] else { panic!("{after:?}") };
    assert_eq!(content, "Summary of the older part of this conversation:\n\nA was read.");
    let [ChatMessage::Assistant { tool_calls, .. }, ChatMessage::Tool { call_id, content, .. }] =
        &after.messages[3..]
    else {
        panic!("{after:?}");
    };
    assert_eq!((tool_calls[0].id == *call_id, content.len()), (true, 300), "a call and its answer");
    assert_eq!(report.transcript[..5], after.messages[..]);
    let (mut text, mut last) = (run.stream::<String>("reply").text(), String::new());
    while let Some(state) = text.next().await.unwrap() {
        last = state;
    }
    assert_eq!(last, "done", "a summary goes to no stream");

    verify(&bench.engine, run.id()).await;
    assert_eq!(script.asked().len(), 4, "a replay asks nothing");
    let expected = [
        "0.0:llm.reader",
        "0.1:read",
        "0.2:llm.reader",
        "0.3:read",
        "0.4:llm.reader.compact",
        "0.5:llm.reader",
    ];
    assert_eq!(committed(&events(&bench.store, run.id()).await), expected);
}

#[tokio::test]
async fn what_the_provider_counts_goes_before_what_is_estimated() {
    // By its length, the conversation has some 250 tokens before the last question.
    for (told, limit, compactions) in [(1_000, 900, 1), (30, 240, 0), (0, 240, 1), (0, 300, 0)] {
        let mut answers = vec![asks("a", 10), asks("b", told)];
        answers.extend((0..compactions).map(|_| says("A was read.")));
        let script = Script::new(answers.into_iter().chain([says("done")]));
        let bench = bench(Models::new(script.clone())).await;
        let run = bench.engine.start::<Reads>(above(limit)).await.unwrap();
        let report = run.result().await.unwrap();
        assert_eq!(report.compactions, compactions, "{told} tokens told, and a limit of {limit}");
        verify(&bench.engine, run.id()).await;
    }
}

workflow!(ReadsOn(cx, compaction: Wanted) -> AgentReport {
    Ok(cx.agent("reader").tools(tool()).compact(compaction.made()).run("Read all.").await?)
});

#[tokio::test]
async fn a_later_summary_takes_the_place_of_the_one_before_it() {
    let script = Script::new([
        asks("a", 10),
        asks("b", 10),
        says("first word"),
        asks("c", 10),
        says("second word"),
        says("done"),
    ]);
    let bench = bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<ReadsOn>(Wanted { own: true, ..above(120) }).await.unwrap();
    let report = run.result().await.unwrap();
    let asked = script.asked();
    assert_eq!(named(&asked), ["reader", "reader", "reader.compact", "reader", "reader.compact", "reader"]);
    assert!(text(&asked[4].messages[1]).contains("first word"), "{:?}", asked[4]);
    let summary = &asked[4];
    assert_eq!((summary.model.as_deref(), summary.max_tokens), (Some("small"), Some(50)));
    assert!(text(&summary.messages[0]).starts_with("Be brief. Stay well below 50 tokens"), "{summary:?}");
    let last: String = asked[5].messages.iter().map(text).collect();
    assert!(last.contains("second word") && !last.contains("first word"), "{last}");
    assert_eq!((report.compactions, report.transcript.len()), (2, 5));
    verify(&bench.engine, run.id()).await;
}

#[tokio::test]
async fn a_summary_that_fails_for_good_ends_the_agent_with_its_error() {
    let script = Script::new([asks("a", 10), asks("b", 10)]);
    let bench = bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<Reads>(above(120)).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("it must fail") };
    assert!(failure.to_string().contains("the script is at its end"), "{failure}");
    assert_eq!(named(&script.asked()), ["reader", "reader", "reader.compact"]);
    verify(&bench.engine, run.id()).await;
}

#[tokio::test]
async fn a_summary_that_was_cut_off_is_a_failed_attempt() {
    let cut_off = ChatResponse { finish_reason: Some("length".into()), ..says("A was re") };
    let script =
        Script::new([asks("a", 10), asks("b", 10), cut_off.clone(), says("A was read."), says("done")]);
    let bench = bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<Reads>(above(120)).await.unwrap();
    let report = run.result().await.unwrap();
    let asked = script.asked();
    assert_eq!(
        named(&asked),
        ["reader", "reader", "reader.compact", "reader.compact", "reader"],
        "it is asked for again"
    );
    assert_eq!(asked[2], asked[3]);
    assert!(text(&asked[4].messages[2]).ends_with("A was read."), "{:?}", asked[4]);
    assert_eq!(report.compactions, 1);
    verify(&bench.engine, run.id()).await;

    let script = Script::new([asks("a", 10), asks("b", 10), cut_off]);
    let bench = self::bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<ReadsOnce>(Wanted { own: true, ..above(120) }).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("it must fail") };
    assert!(failure.to_string().contains("cut off; `.max_tokens(..)`"), "{failure}");
    verify(&bench.engine, run.id()).await;
}

workflow!(ReadsOnce(cx, compaction: Wanted) -> AgentReport {
    let agent = cx.agent("reader").tools(tool()).retry(Retry::NONE);
    Ok(agent.compact(compaction.made()).run("Read all.").await?)
});

#[tokio::test]
async fn a_summary_counts_in_a_budget() {
    let script = Script::new([asks("a", 10), asks("b", 10), says("never said")]);
    let bench = bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<Reads>(Wanted { calls: Some(4), ..above(120) }).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("it must fail") };
    let over = failure.over_budget().unwrap();
    assert_eq!((&*over.budget, over.kind, over.spent), ("all", BudgetKind::Calls, 4));
    assert_eq!(named(&script.asked()), ["reader", "reader"]);
    verify(&bench.engine, run.id()).await;
}

#[tokio::test]
async fn a_conversation_that_cannot_be_made_small_enough_goes_on() {
    // What is newest stays, and it is all there is.
    for wanted in [Wanted { keep: 4, ..above(20) }, Wanted { elides: true, keep: 4, ..above(20) }] {
        let script = Script::new([asks("a", 9_000), asks("b", 9_000), says("done")]);
        let bench = bench(Models::new(script.clone())).await;
        let run = bench.engine.start::<Reads>(wanted).await.unwrap();
        let report = run.result().await.unwrap();
        assert_eq!((&*report.answer, report.compactions, script.asked().len()), ("done", 0, 3));
        verify(&bench.engine, run.id()).await;
    }
}

#[tokio::test]
async fn old_answers_of_tools_are_left_out_without_a_model() {
    let script = Script::new([asks("a", 10), asks("b", 10), says("done")]);
    let bench = bench(Models::new(script.clone())).await;
    let run = bench.engine.start::<Reads>(Wanted { elides: true, ..above(120) }).await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!((named(&script.asked()), report.compactions), (vec!["reader"; 3], 1));
    let last = &script.asked()[2].messages;
    assert_eq!((last.len(), text(&last[3]), text(&last[5]).len()), (6, "[left out: 300 bytes]", 300));
    assert_eq!(last[2], script.asked()[1].messages[2], "the call is still there");
    assert_eq!(report.transcript[..6], last[..]);
    verify(&bench.engine, run.id()).await;
}

#[tokio::test]
async fn summaries_behind_a_hand_off_are_those_of_the_agent_at_work() {
    let hand_over = calls(&[("hand_off_to_writer", "{}")]);
    let reader = Script::new([asks("a", 10), asks("b", 10), hand_over]);
    let writer = Script::new([says("A and B were read."), says("done")]);
    let models = Models::new(reader.clone()).with("writer", writer.clone());
    let bench = bench(models).await;
    // What the provider counts is below the limit; behind the hand-off all of it is estimated.
    let run = bench.engine.start::<HandsOver>(above(200)).await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!((report.compactions, report.handed_to()), (1, Some("writer")));
    let asked = writer.asked();
    assert_eq!(named(&asked), ["writer.compact", "writer"], "the client of the agent is asked");
    assert_eq!(asked[0].model.as_deref(), Some("medium"));
    assert_eq!(asked[1].messages[0], ChatMessage::system("You write."));
    verify(&bench.engine, run.id()).await;
}

/// Reads a, b and c, hands over, and is done.
fn conversation(request: &ChatRequest) -> ChatResponse {
    if request.call.ends_with(".compact") {
        return says("what was read");
    }
    let seen: String = request.messages.iter().map(text).collect();
    match (&*request.call, seen.contains("bbb"), seen.contains("ccc")) {
        ("writer", ..) => says("done"),
        (_, _, true) => calls(&[("hand_off_to_writer", "{}")]),
        (_, true, _) => asks("c", 0),
        _ if seen.contains("aaa") => asks("b", 0),
        _ => asks("a", 0),
    }
}

#[tokio::test]
async fn a_kill_anywhere_repeats_nothing_and_changes_nothing() {
    for wanted in [above(150), Wanted { elides: true, ..above(150) }] {
        let bench = bench(Models::new(ByQuestion::new(conversation))).await;
        let run = bench.engine.start::<HandsOver>(wanted).id("run").await.unwrap();
        let report = run.result().await.unwrap();
        assert!(report.compactions >= 2 && report.hand_offs.len() == 1, "{report:?}");
        assert_eq!(bench.pages.load(Ordering::SeqCst), 3);
        let frames = bench.store.load(run.id(), 0).await.unwrap().len();
        join_all((1..frames).map(|kept| killed_behind::<HandsOver>(kept, &bench.store, &report))).await;
    }
}

/// Continues the run from a copy of its journal that ends behind append `kept`.
async fn killed_behind<W: Workflow<Output = AgentReport>>(
    kept: usize,
    store: &MemoryStore,
    report: &AgentReport,
) {
    let (half, run) = (MemoryStore::new(), "run".parse::<RunId>().unwrap());
    let whole = committed(&events(store, &run).await);
    kit::copy_first(&half, store, &run, kept).await;
    let before = committed(&events(&half, &run).await).len();
    let (model, pages) = (ByQuestion::new(conversation), Arc::new(AtomicUsize::new(0)));
    let builder = kit::successor(&half).register::<W>().provide(Models::new(model.clone()));
    let engine = builder.provide(Arc::clone(&pages)).start().await.unwrap();
    let again = engine.handle::<W>("run").await.unwrap();
    assert_eq!(again.result().await.unwrap(), *report, "killed behind append {kept}");
    assert_eq!(committed(&events(&half, &run).await), whole, "killed behind append {kept}");
    let left = |name: &str| whole[before..].iter().filter(|id| id.contains(name)).count();
    assert_eq!(
        (model.asked().len(), pages.load(Ordering::SeqCst)),
        (left("llm."), left(":read")),
        "killed behind append {kept}"
    );
    verify(&engine, &run).await;
}

workflow!(ContinuesAndHandsOver(cx, compaction: Wanted) -> AgentReport {
    let writer = AgentSpec::new("writer").system("You write.").system("You are brief.");
    let call = |id: &str| ToolCall { id: id.into(), name: "read".into(), arguments: "{}".into() };
    let history = [
        ChatMessage::user("What is in the attic?"),
        ChatMessage::Assistant { content: None, tool_calls: vec![call("old")] },
        ChatMessage::Tool { call_id: "old".into(), name: "read".into(), content: "z".repeat(900) },
        ChatMessage::assistant("Dust."),
    ];
    let agent = cx.agent("reader").system("You read.").tools(tool()).hand_off(writer);
    Ok(agent.history(history).compact(compaction.made()).run("Read all.").await?)
});

#[tokio::test]
async fn a_history_is_summarized_in_its_place_and_the_prompt_stays() {
    let bench = bench(Models::new(ByQuestion::new(conversation))).await;
    let run = bench.engine.start::<ContinuesAndHandsOver>(above(250)).id("run").await.unwrap();
    let report = run.result().await.unwrap();
    assert!(report.compactions >= 2 && report.hand_offs.len() == 1, "{report:?}");
    let said: Vec<_> = report.transcript.iter().map(text).collect();
    let summary = "Summary of the older part of this conversation:\n\nwhat was read";
    assert_eq!(said[..6], ["You write.", "You are brief.", summary, "Dust.", "Read all.", summary]);
    assert_eq!(*said.last().unwrap(), "done");
    verify(&bench.engine, run.id()).await;

    let whole = committed(&events(&bench.store, run.id()).await);
    let frames = bench.store.load(run.id(), 0).await.unwrap().len();
    let cuts = (1..frames).map(|kept| killed_behind::<ContinuesAndHandsOver>(kept, &bench.store, &report));
    join_all(cuts).await;
    let summaries = whole.iter().filter(|id| id.ends_with(".compact")).count();
    assert_eq!(summaries, report.compactions as usize);
}

#[tokio::test]
async fn old_answers_of_tools_in_a_history_are_left_out() {
    let script = Script::new([asks("a", 10), says("done")]);
    let bench = bench(Models::new(script.clone())).await;
    let wanted = Wanted { elides: true, ..above(250) };
    let run = bench.engine.start::<ContinuesAndHandsOver>(wanted).await.unwrap();
    let report = run.result().await.unwrap();
    let first: Vec<_> = script.asked()[0].messages.iter().map(text).map(str::to_owned).collect();
    assert_eq!(first[1..], ["What is in the attic?", "", "[left out: 900 bytes]", "Dust.", "Read all."]);
    assert_eq!((report.compactions, text(&report.transcript[7]).len()), (1, 300));
    verify(&bench.engine, run.id()).await;
}
