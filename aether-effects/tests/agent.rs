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
use aether_effects::agent::{AgentReport, CxAgent, Parallel, Progress};
use aether_effects::llm::{
    Attachment, ChatMessage, ChatRequest, ChatResponse, ModelClient, ModelError, Models, ToolCall, Usage,
};
use futures_util::future::BoxFuture;
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
    assert_eq!(report.usage, Usage::of(20, 2));
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
    let engine = kit::successor(&half)
        .register::<Help>()
        .provide(models)
        .provide(Arc::clone(&counts))
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

/// How many bodies run at the same time: each waits, for at most a while, for so many others.
#[derive(Default)]
struct Meeting {
    inside: AtomicUsize,
    most: AtomicUsize,
    order: std::sync::Mutex<Vec<String>>,
}

impl Meeting {
    async fn attend(&self, name: String) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.order.lock().unwrap().push(format!("{name} begins"));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        self.order.lock().unwrap().push(format!("{name} ends"));
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

step!(
    #[doc = " Read a page."]
    read(cx, page: String) -> String, StepOptions { retry: Some(Retry::NONE), ..StepOptions::of(EffectClass::Read) }, {
        cx.dep::<Arc<Meeting>>()?.attend(page.clone()).await;
        Ok(page)
    }
);

step!(
    #[doc = " Write a page."]
    write(cx, page: String) -> String, StepOptions::of(EffectClass::Tool), {
        cx.dep::<Arc<Meeting>>()?.attend(page.clone()).await;
        if page == "lost" {
            return Err(Failure::unknown("no answer from the printer"));
        }
        Ok(page)
    }
);

fn both() -> (Tool, Tool) {
    (tool::<read>("page"), tool::<write>("page"))
}

workflow!(OneByOne(cx, prompt: String) -> AgentReport {
    Ok(cx.agent("reader").tools(both()).run(prompt).await?)
});

workflow!(ReadsTogether(cx, prompt: String) -> AgentReport {
    Ok(cx.agent("reader").tools(both()).parallel(Parallel::Reads).run(prompt).await?)
});

workflow!(AllTogether(cx, prompt: String) -> AgentReport {
    Ok(cx.agent("reader").tools(both()).parallel(Parallel::Everything).run(prompt).await?)
});

struct Met {
    engine: Engine,
    store: MemoryStore,
    meeting: Arc<Meeting>,
    script: Script,
}

async fn met(script: Script) -> Met {
    let (store, meeting) = (MemoryStore::new(), Arc::new(Meeting::default()));
    let builder = builder(&store).provide(Models::new(script.clone())).provide(Arc::clone(&meeting));
    Met { engine: builder.start().await.unwrap(), store, meeting, script }
}

fn pages() -> [aether_effects::llm::ChatResponse; 2] {
    let page = |name: &str| format!(r#"{{"page":"{name}"}}"#);
    let (a, b, c, d, e) = (page("a"), page("b"), page("C"), page("d"), page("e"));
    [
        calls(&[("read", &a), ("read", &b), ("write", &c), ("read", &d), ("fly", "{}"), ("read", &e)]),
        says("done"),
    ]
}

#[tokio::test]
async fn reads_of_one_answer_run_together_and_what_changes_the_world_in_its_place() {
    let bench = met(Script::new(pages())).await;
    let run = bench.engine.start::<ReadsTogether>("go".into()).await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!(told(&report)[..4], ["a", "b", "C", "d"]);
    assert!(told(&report)[4].contains("no tool `fly`") && told(&report)[5] == "e", "in the model's order");
    assert_eq!(bench.meeting.most.load(Ordering::SeqCst), 2);
    let order = bench.meeting.order.lock().unwrap().clone();
    let at = |what: &str| order.iter().position(|seen| seen == what).unwrap();
    assert!(at("b begins") < at("a ends") && at("e begins") < at("d ends"), "{order:?}");
    assert!(at("a ends").max(at("b ends")) < at("C begins"), "{order:?}");
    assert!(at("C ends") < at("d begins").min(at("e begins")), "{order:?}");
    verify(&bench.engine, run.id()).await;
    let events = events(&bench.store, run.id()).await;
    let started = events.iter().filter_map(|event| match event {
        Event::NodeStarted(e) => Some(e.command.to_string()),
        Event::ToolInvocationStarted(e) => Some(e.command.to_string()),
        _ => None,
    });
    let mut started: Vec<_> = started.collect();
    started.sort();
    started.dedup();
    assert_eq!(
        started,
        [
            "0.0:llm.reader",
            "0.1.i0.0:read",
            "0.1.i1.0:read",
            "0.2:write",
            "0.3.i0.0:read",
            "0.3.i2.0:read",
            "0.4:llm.reader"
        ]
    );
}

#[tokio::test]
async fn calls_are_made_one_by_one_or_all_together_where_the_agent_says_so() {
    let bench = met(Script::new(pages())).await;
    let run = bench.engine.start::<OneByOne>("go".into()).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(bench.meeting.most.load(Ordering::SeqCst), 1);
    verify(&bench.engine, run.id()).await;

    let bench = met(Script::new(pages())).await;
    let run = bench.engine.start::<AllTogether>("go".into()).await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!(told(&report)[2], "C");
    assert_eq!(bench.meeting.most.load(Ordering::SeqCst), 5);
    verify(&bench.engine, run.id()).await;
}

#[tokio::test]
async fn a_call_in_doubt_stops_the_agent_when_those_beside_it_have_ended() {
    let page = |name: &str| format!(r#"{{"page":"{name}"}}"#);
    let ask = calls(&[("write", &page("lost")), ("read", &page("a")), ("write", &page("b"))]);
    let bench = met(Script::new([ask, says("never said")])).await;
    let run = bench.engine.start::<AllTogether>("go".into()).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("the run must fail") };
    assert_eq!(failure.class(), FailureClass::Unknown, "{failure}");
    assert_eq!(bench.script.asked().len(), 1, "the model is not asked what to do about it");
    let order = bench.meeting.order.lock().unwrap().clone();
    assert_eq!(order.iter().filter(|seen| seen.ends_with("ends")).count(), 3, "{order:?}");
    verify(&bench.engine, run.id()).await;
}

#[tokio::test]
async fn parallel_calls_that_a_crash_cut_apart_are_not_repeated() {
    let bench = met(Script::new(pages())).await;
    let run = bench.engine.start::<ReadsTogether>("go".into()).id("run").await.unwrap();
    run.result().await.unwrap();
    let lasts = ["0.1.i0.0:read", "0.1.i1.0:read", "0.2:write", "0.3.i2.0:read"];
    futures_util::future::join_all(lasts.map(|last| cut_behind(&bench.store, run.id(), last))).await;
}

/// Continues a run from a copy of its journal that ends behind the outcome of `last`.
async fn cut_behind(store: &MemoryStore, run: &aether_core::id::RunId, last: &str) {
    let half = MemoryStore::new();
    kit::copy_until(&half, store, run, last).await;
    let (script, meeting) = (Script::new([says("after the crash")]), Arc::new(Meeting::default()));
    let engine = kit::successor(&half)
        .register::<ReadsTogether>()
        .provide(Models::new(script.clone()))
        .provide(Arc::clone(&meeting))
        .start()
        .await
        .unwrap();
    let handle = engine.handle::<ReadsTogether>("run").await.unwrap();
    let report = handle.result().await.unwrap();
    assert_eq!((&*report.answer, script.asked().len()), ("after the crash", 1), "{last}");
    let again = meeting.order.lock().unwrap().clone();
    let kept: Vec<_> = events(&half, run).await;
    assert_eq!(kept.iter().filter(|event| matches!(event, Event::ToolInvocationStarted(_))).count(), 1);
    let page = match last {
        "0.1.i0.0:read" => "a begins",
        "0.1.i1.0:read" => "b begins",
        "0.2:write" => "C begins",
        _ => "e begins",
    };
    assert!(!again.iter().any(|seen| seen == page), "{last}: {again:?}");
    verify(&engine, handle.id()).await;
}

workflow!(Count(cx, prompt: String) -> (Vec<u8>, u32) {
    let answer = cx.agent("counter").tools(tool::<search>("query")).max_turns(3).run_json::<Vec<u8>>(prompt).await?;
    Ok((answer.value, answer.report.turns))
});

#[tokio::test]
async fn a_final_answer_of_another_shape_goes_back_and_uses_up_a_turn() {
    let bench =
        bench(Script::new([calls(&[("search", r#"{"query":"a"}"#)]), says("one, two"), says("[1,2]")])).await;
    let run = bench.engine.start::<Count>("count".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), (vec![1, 2], 3));
    let asked = bench.script.asked();
    assert!(asked.iter().all(|asked| asked.response_schema.is_some() && asked.tools.len() == 1));
    assert_eq!(asked[2].messages[3], ChatMessage::assistant("one, two"));
    verify(&bench.engine, run.id()).await;

    let bench = self::bench(Script::new((0..9).map(|_| says("no")))).await;
    let run = bench.engine.start::<Count>("count".into()).await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("no answer within 3 turns"), "{error}");
    verify(&bench.engine, run.id()).await;
}

workflow!(Thrifty(cx, prompt: String) -> AgentReport {
    let enough = |so_far: &Progress<'_>| so_far.usage.total() > 20 && so_far.tool_calls > 1;
    Ok(cx.agent("thrifty").tools(tool::<search>("query")).stop_when(enough).run(prompt).await?)
});

#[tokio::test]
async fn a_rule_stops_an_agent_behind_its_tool_calls() {
    let bench = bench(Script::new((0..9).map(|_| calls(&[("search", r#"{"query":"x"}"#)])))).await;
    let run = bench.engine.start::<Thrifty>("go".into()).await.unwrap();
    let report = run.result().await.unwrap();
    assert!(report.stopped);
    assert_eq!((report.turns, bench.script.asked().len(), told(&report).len()), (2, 2, 2));
    assert!(matches!(report.transcript.last(), Some(ChatMessage::Tool { .. })));
    verify(&bench.engine, run.id()).await;
    let report = r#"{"answer":"a","turns":1,"usage":{"input_tokens":1,"output_tokens":1},"transcript":[]}"#;
    let older: AgentReport = serde_json::from_str(report).unwrap();
    assert!(!older.stopped, "reports of older journals are read");
    assert_eq!(serde_json::to_string(&older).unwrap(), report);
}

workflow!(Careful(cx, prompt: String) -> AgentReport {
    let mail = tool::<send>("body").with_approval_when(|args| !args.as_str().contains("hi"));
    let archive = tool::<search>("query").with_approval();
    Ok(cx.agent("careful").tools((archive, mail)).run(prompt).await?)
});

#[tokio::test]
async fn a_tool_needs_approval_where_the_agent_says_so() {
    let ask =
        calls(&[("search", r#"{"query":"a"}"#), ("send", r#"{"body":"hi"}"#), ("send", r#"{"body":"bye"}"#)]);
    let bench = bench(Script::new([ask, says("done")])).await;
    let run = bench.engine.start::<Careful>("go".into()).await.unwrap();
    let waits = async |command: &str| {
        let asks =
            |event: &Event| matches!(event, Event::ApprovalRequested(e) if e.command.as_str() == command);
        while !events(&bench.store, run.id()).await.iter().any(asks) {
            tokio::task::yield_now().await;
        }
        aether_core::id::CommandId::from(command.to_owned())
    };
    let asked = waits("0.1:search").await;
    assert_eq!(bench.counts.search.load(Ordering::SeqCst), 0);
    bench.engine.approve(run.id(), asked, "ann").await.unwrap();
    let asked = waits("0.3:send").await;
    assert_eq!(bench.counts.send.load(Ordering::SeqCst), 1, "by its arguments, the first needed none");
    bench.engine.reject(run.id(), asked, "too late", "ann").await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!(told(&report)[..2], [r#"["about a"]"#, "sent hi"]);
    assert!(told(&report)[2].contains("rejected") && told(&report)[2].contains("too late"), "{report:?}");
    assert_eq!(bench.counts.send.load(Ordering::SeqCst), 1);
    verify(&bench.engine, run.id()).await;
}

workflow!(Chat(cx, more: bool) -> Vec<AgentReport> {
    let cat = Attachment::url("image/png", "https://example.com/cat.png");
    let first = cx.agent("helper").system("You help.").tools(tool::<search>("query")).run("Find keys.").await?;
    let mut reports = vec![first];
    if more {
        let said = reports[0].transcript.clone();
        let agent = cx.agent("helper").system("You still help.").tools(tool::<search>("query"));
        let agent = agent.history(said).attach(cat).max_tokens(70);
        reports.push(agent.run("And this?").await?);
    }
    Ok(reports)
});

#[tokio::test]
async fn an_agent_continues_a_conversation_and_nothing_else_changes() {
    let script = || {
        let looks = calls(&[("search", r#"{"query":"keys"}"#)]);
        Script::new([looks.clone(), says("found"), looks, says("a cat")])
    };
    let bench = bench(script()).await;
    let run = bench.engine.start::<Chat>(true).id("run").await.unwrap();
    let reports = run.result().await.unwrap();
    let asked = bench.script.asked();
    let [_, _, question, _] = &asked[..] else { panic!("{asked:?}") };
    let prompt = "And this?";
    let cat = Attachment::url("image/png", "https://example.com/cat.png");
    let mut expected = vec![ChatMessage::system("You still help.")];
    expected.extend(reports[0].transcript[1..].iter().cloned());
    expected.push(ChatMessage::user_with(prompt, vec![cat]));
    assert_eq!((&question.messages, question.max_tokens), (&expected, Some(70)));
    assert_eq!(reports[1].transcript.len(), expected.len() + 3, "a call, its answer and the last word");
    assert_eq!((reports[1].turns, reports[1].usage), (2, Usage::of(20, 2)), "what it took itself");
    verify(&bench.engine, run.id()).await;

    // An agent that has none of it is recorded as ever.
    let first = serde_json::to_string(&asked[0]).unwrap();
    assert!(
        first.starts_with(
            r#"{"call":"helper","messages":[{"role":"system","content":"You help."},{"role":"user","content":"Find keys."}],"tools":["#
        ) && first.ends_with("]}"),
        "{first}"
    );
}

workflow!(Takes(cx, history: Vec<ChatMessage>) -> AgentReport {
    Ok(cx.agent("helper").tools(tool::<send>("body")).history(history).run("Go on.").await?)
});

#[tokio::test]
async fn a_call_without_an_answer_in_a_history_is_told_and_never_made() {
    let call = ToolCall { id: "c".into(), name: "send".into(), arguments: r#"{"body":"hi"}"#.into() };
    let asked = ChatMessage::Assistant { content: None, tool_calls: vec![call] };
    let bench = bench(Script::new([says("done")])).await;
    let history = vec![ChatMessage::user("Send hi."), asked.clone()];
    let run = bench.engine.start::<Takes>(history).await.unwrap();
    let report = run.result().await.unwrap();
    let [_, call, answer, prompt] = &bench.script.asked()[0].messages[..] else { panic!("{report:?}") };
    assert_eq!((call, prompt), (&asked, &ChatMessage::user("Go on.")));
    let ChatMessage::Tool { call_id, name, content } = answer else { panic!("{answer:?}") };
    assert_eq!((&**call_id, &**name), ("c", "send"));
    assert!(content.contains("it is not known what became of this call"), "{content}");
    assert_eq!(bench.counts.send.load(Ordering::SeqCst), 0);
    verify(&bench.engine, run.id()).await;
}

/// A model of which there is only `small`.
#[derive(Clone, Debug, Default)]
struct OnlySmall(Arc<std::sync::Mutex<Vec<String>>>);

impl ModelClient for OnlySmall {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let model = request.model.unwrap_or_default();
        self.0.lock().unwrap().push(model.clone());
        let is_over = matches!(request.messages.last(), Some(ChatMessage::Tool { .. }));
        Box::pin(std::future::ready(match (&*model, is_over) {
            ("small", true) => Ok(says("done")),
            ("small", false) => Ok(calls(&[("search", r#"{"query":"a"}"#)])),
            _ => Err(ModelError::BadRequest { status: 404, message: "no such model".into() }),
        }))
    }
}

workflow!(FallsBack(cx, prompt: String) -> AgentReport {
    Ok(cx.agent("helper").model("large").or("small").tools(tool::<search>("query")).run(prompt).await?)
});

#[tokio::test]
async fn an_agents_model_that_gives_no_answer_is_followed_by_the_next() {
    let (client, counts, store) = (OnlySmall::default(), Arc::new(Counts::default()), MemoryStore::new());
    let models = Models::new(client.clone());
    let engine = builder(&store).provide(models).provide(Arc::clone(&counts)).start().await.unwrap();
    let run = engine.start::<FallsBack>("go".into()).await.unwrap();
    let report = run.result().await.unwrap();
    assert_eq!((&*report.answer, report.turns), ("done", 2), "a model without an answer is no turn");
    assert_eq!(*client.0.lock().unwrap(), ["large", "small", "large", "small"]);
    let events = events(&store, run.id()).await;
    let expected = ["0.1:llm.helper", "0.2:search", "0.4:llm.helper"];
    assert_eq!(kit::committed(&events), expected, "each is a command of its own");
    verify(&engine, run.id()).await;
}
