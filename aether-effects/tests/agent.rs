//! Agents over a scripted model and real tools, through a real engine.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aether_core::definition::def::{Retry, StepOptions};
use aether_core::engine::{Engine, RunError};
use aether_core::failure::Failure;
use aether_core::journal::event::Event;
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::step::Step;
use aether_core::step::{Tool, ToolSchema};
use aether_core::store::Store;
use aether_core::store::memory::MemoryStore;
use aether_effects::agent::{AgentReport, CxAgent};
use aether_effects::llm::{ChatMessage, Models, ToolCall, Usage};
use kit::{Script, builder, calls, events, says, verify};

/// How often the tools ran.
#[derive(Default)]
struct Counts {
    search: AtomicUsize,
    send: AtomicUsize,
}

step!(
    #[doc = " Search the archive."]
    search(cx, query: String) -> Vec<String>, StepOptions { retry: Some(Retry::NONE), ..StepOptions::of(EffectClass::Read) }, {
        cx.dep::<Arc<Counts>>()?.search.fetch_add(1, Ordering::SeqCst);
        if query == "fail" {
            return Err(Failure::permanent("the archive is closed"));
        }
        Ok(vec![format!("about {query}")])
    }
);

step!(
    #[doc = " Send a mail."]
    send(cx, body: String) -> String, StepOptions::of(EffectClass::Tool), {
        cx.dep::<Arc<Counts>>()?.send.fetch_add(1, Ordering::SeqCst);
        match &*body {
            "lost" => Err(Failure::unknown("no answer from the mail server")),
            "panic" => panic!("half-way"),
            _ => Ok(format!("sent {body}")),
        }
    }
);

fn tool<S: Step>(argument: &str) -> Tool {
    Tool::of::<S>(ToolSchema::new().field::<String>(argument, "a text"))
}

workflow!(Help(cx, prompt: String) -> (u64, AgentReport, u64) {
    let before = cx.random().await;
    let report = cx
        .agent("helper")
        .system("You help.")
        .tools((tool::<search>("query"), tool::<send>("body")))
        .max_turns(4)
        .run(prompt)
        .await?;
    Ok((before, report, cx.random().await))
});

struct Bench {
    engine: Engine,
    store: MemoryStore,
    script: Script,
    counts: Arc<Counts>,
}

async fn bench(script: Script) -> Bench {
    let (store, counts) = (MemoryStore::new(), Arc::new(Counts::default()));
    let models = Models::new(script.clone());
    let engine = builder(&store).provide(models).provide(Arc::clone(&counts)).start().await.unwrap();
    Bench { engine, store, script, counts }
}

impl Bench {
    async fn help(&self) -> Result<AgentReport, Failure> {
        let run = self.engine.start::<Help>("find and send".into()).id("run").await.unwrap();
        let result = match run.result().await {
            Ok((_, report, _)) => Ok(report),
            Err(RunError::Failed(failure)) => Err(failure),
            Err(other) => panic!("{other}"),
        };
        let before = (self.script.asked().len(), self.counts.search.load(Ordering::SeqCst));
        verify(&self.engine, run.id()).await;
        assert_eq!(before, (self.script.asked().len(), self.counts.search.load(Ordering::SeqCst)));
        result
    }

    async fn commands(&self) -> Vec<String> {
        let run = self.engine.find("run").await.unwrap();
        let events = events(&self.store, run.id()).await;
        let started = events.iter().filter_map(|event| match event {
            Event::NodeStarted(e) => Some(e.command.to_string()),
            Event::RandomRecorded(e) => Some(e.command.to_string()),
            _ => None,
        });
        started.collect()
    }
}

/// What the tools answered, in order.
fn told(report: &AgentReport) -> Vec<&str> {
    let mut answers = Vec::new();
    for message in &report.transcript {
        if let ChatMessage::Tool { content, .. } = message {
            answers.push(content.as_str());
        }
    }
    answers
}

#[tokio::test]
async fn two_tools_are_called_in_order_and_everything_is_recorded() {
    let both = calls(&[("search", r#"{"query":"keys"}"#), ("send", r#"{"body":"hi"}"#)]);
    let bench = bench(Script::new([both, says("done")])).await;
    let report = bench.help().await.unwrap();
    assert_eq!((&*report.answer, report.turns), ("done", 2));
    assert_eq!(report.usage, Usage { input_tokens: 20, output_tokens: 2 });
    assert_eq!(told(&report), [r#"["about keys"]"#, "sent hi"]);
    assert_eq!(report.transcript.len(), 6, "system, user, calls, two answers, last word");
    assert_eq!(
        bench.commands().await,
        ["0:random", "1.0:llm.helper", "1.1:search", "1.2:send", "1.3:llm.helper", "2:random"],
        "a scope of its own, so that what follows keeps its id"
    );

    let asked = bench.script.asked();
    let names: Vec<_> = asked[0].tools.iter().map(|tool| (&*tool.name, &*tool.description)).collect();
    assert_eq!(names, [("search", "Search the archive."), ("send", "Send a mail.")]);
    assert_eq!(asked[1].messages[..], report.transcript[..5]);
    let rows = bench.store.entries(bench.engine.find("run").await.unwrap().id()).await.unwrap();
    assert_eq!(rows.len(), 1, "only the world-changing tool has a ledger row");
}

#[tokio::test]
async fn what_a_model_gets_wrong_is_told_to_it_and_nothing_is_called() {
    let wrong = calls(&[
        ("fly", "{}"),
        ("search", "not json"),
        ("search", r#"{"query":7}"#),
        ("send", ""),
        ("send", "[]"),
    ]);
    let bench = bench(Script::new([wrong, says("sorry")])).await;
    let report = bench.help().await.unwrap();
    let told = told(&report);
    assert_eq!(told[0], "error: there is no tool `fly`; the tools are: search, send");
    for (answer, part) in told[1..].iter().zip(["JSON", "query", "body", "object"]) {
        assert!(answer.starts_with("error: bad arguments for `") && answer.contains(part), "{answer}");
    }
    assert_eq!(bench.counts.search.load(Ordering::SeqCst) + bench.counts.send.load(Ordering::SeqCst), 0);
    assert_eq!(bench.commands().await, ["0:random", "1.0:llm.helper", "1.1:llm.helper", "2:random"]);
}

#[tokio::test]
async fn a_failing_tool_is_told_to_the_model() {
    let bench = bench(Script::new([calls(&[("search", r#"{"query":"fail"}"#)]), says("closed")])).await;
    let report = bench.help().await.unwrap();
    assert_eq!(told(&report), ["error: the archive is closed"]);
}

#[tokio::test]
async fn a_tool_of_unknown_outcome_stops_the_agent() {
    for (body, class) in [("lost", FailureClass::Unknown), ("panic", FailureClass::Permanent)] {
        let ask = calls(&[("send", &format!(r#"{{"body":"{body}"}}"#)), ("search", r#"{"query":"x"}"#)]);
        let bench = bench(Script::new([ask, says("never said")])).await;
        let failure = bench.help().await.unwrap_err();
        assert_eq!(failure.class(), class, "{failure}");
        assert_eq!(bench.script.asked().len(), 1, "the model is not asked what to do about it");
        assert_eq!(bench.counts.send.load(Ordering::SeqCst), 1);
        assert_eq!(bench.counts.search.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn turns_are_limited_and_the_error_says_so() {
    let bench = bench(Script::new((0..9).map(|_| calls(&[("search", r#"{"query":"x"}"#)])))).await;
    let failure = bench.help().await.unwrap_err();
    assert!(failure.to_string().contains("no answer within 4 turns"), "{failure}");
    assert_eq!(bench.script.asked().len(), 4);
}

#[tokio::test]
async fn an_agent_goes_on_where_it_stopped() {
    let bench = bench(Script::new([calls(&[("search", r#"{"query":"a"}"#)]), says("done")])).await;
    bench.help().await.unwrap();
    let run = bench.engine.find("run").await.unwrap();
    // A second engine over a copy of the journal's first half: as after a crash behind the tool's outcome.
    let half = MemoryStore::new();
    kit::copy_until(&half, &bench.store, run.id(), "1.1:search").await;
    let (script, counts) = (Script::new([says("done after the crash")]), Arc::new(Counts::default()));
    let models = Models::new(script.clone());
    let engine = builder(&half)
        .register::<Help>()
        .provide(models)
        .provide(Arc::clone(&counts))
        .poll_interval(std::time::Duration::from_millis(5))
        .start()
        .await
        .unwrap();
    let (_, report, _) = engine.handle::<Help>("run").await.unwrap().result().await.unwrap();
    assert_eq!(report.answer, "done after the crash");
    assert_eq!(script.asked().len(), 1);
    assert_eq!(counts.search.load(Ordering::SeqCst), 0, "a recorded tool is not called again");
    let called = ToolCall { id: "c0".into(), name: "search".into(), arguments: r#"{"query":"a"}"#.into() };
    assert_eq!(report.transcript[2], ChatMessage::Assistant { content: None, tool_calls: vec![called] });
}
