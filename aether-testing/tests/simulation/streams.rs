//! Streams in simulations: scripted models and stubs send, tests read, and sweeps hold texts against answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, Models, OnText};
use aether::prelude::*;
use aether::stream::StreamEvent;
use aether_testing::{CrashPoint, Sim, SimError, SimStream, StoreFault, call_tool, say, say_in_pieces};
use futures_util::future::{BoxFuture, ready};

use crate::not_stubbed;

const SECOND: Duration = Duration::from_secs(1);

/// Answer a question.
#[workflow]
async fn reply(cx: &mut Cx, question: String) -> Result<String> {
    Ok(cx.llm("reply").user(question).stream("reply").text().await?)
}

fn network() -> ModelError {
    ModelError::Network { message: "connection reset".into() }
}

fn kinds<T>(stream: &SimStream<T>) -> Vec<&'static str> {
    let kind = |event: &StreamEvent<T>| match event {
        StreamEvent::Chunk { .. } => "chunk",
        StreamEvent::Restarted { .. } => "restarted",
        StreamEvent::Committed { .. } => "committed",
        StreamEvent::Closed { .. } => "closed",
        _ => "another",
    };
    stream.events().iter().map(kind).collect()
}

#[aether::test]
async fn an_answer_comes_word_by_word_and_in_pieces(sim: Sim<reply>) {
    let report = sim.clone().model(|_| "Good morning, Ann").run("Hello".into()).await;
    let told = report.stream::<String>("reply");
    assert_eq!(told.items(), ["Good ", "morning, ", "Ann"]);
    assert_eq!(
        kinds(&told),
        ["chunk", "chunk", "committed", "closed"],
        "the first word is written by itself"
    );
    assert_eq!(report.slept, Duration::ZERO);

    let report = sim.model(|_| say_in_pieces(["Go", "od"]).every(SECOND)).run("Hello".into()).await;
    assert_eq!(report.stream::<String>("reply").items(), ["Go", "od"]);
    report.assert_took(SECOND);
    assert_eq!(report.stream::<String>("nothing").events().len(), 1, "nobody sent anything there");
}

#[aether::test]
async fn an_attempt_that_breaks_off_leaves_nothing(sim: Sim<reply>) {
    let replies = [say("Good mor").breaks_off(network()), say("Hello, Ann")];
    let report = sim.model_seq("reply", replies).run("Hello".into()).await;
    assert_eq!(report.assert_completed(), "Hello, Ann");
    assert_eq!(report.model_requests("reply").len(), 2);
    let told = report.stream::<String>("reply");
    assert_eq!(told.text(), "Hello, Ann");
    assert_eq!(
        kinds(&told),
        ["chunk", "chunk", "restarted", "chunk", "chunk", "committed", "closed"],
        "{told:?}"
    );
}

/// What a client has, who does not stream, takes as long.
#[workflow]
async fn silent(cx: &mut Cx) -> Result<String> {
    Ok(cx.llm("silent").user("Hello").text().await?)
}

#[aether::test]
async fn pieces_take_their_time_where_nobody_streams(sim: Sim<silent>) {
    let sim = sim.model(|_| say_in_pieces(["a", "b", "c"]).every(SECOND));
    sim.run(()).await.assert_took(SECOND * 2);
}

/// Look a word up.
#[step(effect = "read")]
async fn look_up(_cx: &mut StepCx, word: String) -> Result<u32> {
    not_stubbed(word)
}

/// Answer with tools at hand.
#[workflow]
async fn assist(cx: &mut Cx, question: String) -> Result<String> {
    Ok(cx.agent("assist").stream("reply").tools(look_up::tool()).run(question).await?.answer)
}

fn assisted(sim: Sim<assist>) -> Sim<assist> {
    let replies = [
        say("Let me see.").and::<look_up>("bell".into()),
        call_tool::<look_up>("ring".into()),
        say("It rings."),
    ];
    sim.conversation("assist", replies).stub::<look_up>(|word| Ok(u32::try_from(word.len()).unwrap_or(0)))
}

#[aether::test]
async fn an_agents_stream_has_its_final_answer(sim: Sim<assist>) {
    let told = assisted(sim).run("Why?".into()).await.stream::<String>("reply");
    assert_eq!(told.text(), "It rings.");
    let said =
        |event: &StreamEvent<String>| matches!(event, StreamEvent::Chunk { items, .. } if items[0] == "Let ");
    assert!(told.events().iter().any(said), "it was there while it came: {told:?}");
}

/// Copy rows.
#[step(effect = "tool")]
async fn copy(_cx: &mut StepCx, rows: u32) -> Result<u32> {
    not_stubbed(rows)
}

/// Count down.
#[step(effect = "read")]
async fn count(cx: &mut StepCx, from: u32) -> Result<u32> {
    let numbers = cx.stream("numbers");
    (0..from).rev().for_each(|number| numbers.send(&number));
    Ok(from)
}

#[workflow]
async fn move_out(cx: &mut Cx, rows: u32) -> Result<u32> {
    Ok(copy(cx, rows).await? + count(cx, 2).await?)
}

#[aether::test]
async fn stubs_and_real_bodies_send(sim: Sim<move_out>) {
    let sim = sim.real::<count>().streams::<copy, _>("copied", |rows| [rows / 2, rows]);
    let sim = sim.streams::<copy, _>("log", |rows| [format!("{rows} rows")]);
    let report = sim.clone().stub::<copy>(Ok).run(300).await;
    assert_eq!(report.stream::<u32>("copied").items(), [&150, &300]);
    assert_eq!(report.stream::<String>("log").text(), "300 rows");
    assert_eq!(report.stream::<u32>("numbers").items(), [&1, &0]);

    let waits = sim.clone().stub_async::<copy>(|cx, rows| {
        Box::pin(async move {
            tokio::time::sleep(SECOND).await;
            cx.stream("copied").send(&(rows + 1));
            Ok(rows)
        })
    });
    assert_eq!(waits.run(300).await.stream::<u32>("copied").items(), [&150, &300, &301]);

    let failed = sim.clone().stub::<copy>(|_| Err(Failure::permanent("no room"))).run(300).await;
    assert!(failed.stream::<u32>("copied").items().is_empty());
    let forgotten = sim.try_run(300).await.unwrap_err();
    assert!(forgotten.to_string().contains(".stub::<copy>"), "{forgotten}");
}

#[aether::test]
async fn every_crash_leaves_the_text_of_the_answer(sim: Sim<reply>) {
    let replies = [
        say_in_pieces(["Good ", "mor"]).every(SECOND).breaks_off(network()),
        say_in_pieces(["Hel", "lo, ", "Ann"]).every(SECOND),
    ];
    let sim = sim.model_seq("reply", replies);
    let report = sim.crash_at_every_boundary("Hello".into()).await;
    let streams = report.boundaries.iter().filter(|at| matches!(at.point, CrashPoint::AfterStream(_)));
    assert_eq!(streams.count(), 5, "{report:?}");
    for number in 1..=5 {
        for point in [CrashPoint::BeforeStream(number), CrashPoint::AfterStream(number)] {
            let report = sim.clone().crash(point).run("Hello".into()).await;
            assert_eq!((report.crashes, report.stream::<String>("reply").text()), (1, "Hello, Ann".into()));
        }
    }
}

#[aether::test]
async fn every_order_fault_and_schedule_leaves_the_text_of_the_answer(sim: Sim<reply>) {
    // Slow enough for a write that is given up and done later to come into the second attempt.
    let slow = Duration::from_secs(4);
    let broken = say_in_pieces(["Good ", "mor"]).every(SECOND).breaks_off(network());
    let sim = sim
        .model_seq("reply", [broken])
        .model(move |_| say_in_pieces(["Hel", "lo, ", "how ", "are ", "you"]).every(slow));
    let faults = sim.fail_at_every_call("Hello".into()).await;
    let came_up = |fault: &StoreFault| faults.outlasted.contains(fault);
    for number in 1..=2 {
        for fault in [StoreFault::StreamFails, StoreFault::StreamAnswerLost, StoreFault::StreamLate] {
            assert!(came_up(&fault(number)), "{faults:?}");
        }
    }
    sim.every_interleaving(10, "Hello".into()).await;
    sim.every_schedule("Hello".into(), 20).await;
}

#[aether::test]
async fn agents_survive_every_crash_with_their_text(sim: Sim<assist>) {
    assisted(sim).crash_at_every_boundary("Why?".into()).await;
}

/// Two answers at once, in one stream.
#[workflow]
async fn debate(cx: &mut Cx) -> Result<String> {
    let (one, other) = cx
        .join((
            async |cx: &mut Cx| cx.llm("one").user("?").stream("reply").text().await,
            async |cx: &mut Cx| cx.llm("other").user("?").stream("reply").text().await,
        ))
        .await;
    Ok(format!("{}{}", one?, other?))
}

#[aether::test]
async fn two_models_in_one_stream_keep_their_texts(sim: Sim<debate>) {
    let sim =
        sim.model_for("one", |_| say("yes it is").every(SECOND)).model_for("other", |_| say("no it is not"));
    let report = sim.run(()).await;
    assert_eq!(report.stream::<String>("reply").items().len(), 7);
    sim.crash_at_every_boundary(()).await;
    sim.every_interleaving(10, ()).await;
}

/// Sleep for a month, and answer then.
#[workflow]
async fn late(cx: &mut Cx) -> Result<String> {
    cx.sleep(Duration::from_secs(30 * 24 * 3600)).await;
    Ok(cx.llm("late").user("Hello").stream("reply").text().await?)
}

#[aether::test]
async fn a_reader_beside_a_run_that_sleeps_for_a_month_waits_in_virtual_time(sim: Sim<late>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let sim = sim.model(|_| say_in_pieces(["Good ", "morning"]).every(SECOND)).meanwhile(move |live| {
        let counted = Arc::clone(&counted);
        async move {
            let mut reply = live.stream::<String>("reply").await.unwrap();
            let mut texts = Vec::new();
            while let Some(event) = reply.next().await.unwrap() {
                if let StreamEvent::Chunk { items, .. } = event {
                    texts.extend(items);
                }
            }
            assert_eq!(texts.concat(), "Good morning");
            counted.fetch_add(texts.len(), Ordering::SeqCst);
        }
    });
    let report = sim.run(()).await;
    assert_eq!(report.stream::<String>("reply").text(), "Good morning");
    assert!(read.load(Ordering::SeqCst) <= 2);
}

/// Tells another text than it answers with, unless it is the first of its questions.
#[derive(Debug, Default)]
struct Garbles(AtomicUsize);

impl ModelClient for Garbles {
    fn chat(&self, _: ChatRequest) -> BoxFuture<'_, std::result::Result<ChatResponse, ModelError>> {
        let content = Some("Hello".to_owned());
        Box::pin(ready(Ok(ChatResponse { model: "garbled".into(), content, ..ChatResponse::default() })))
    }

    fn chat_streamed<'a>(
        &'a self,
        request: ChatRequest,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, std::result::Result<ChatResponse, ModelError>> {
        on_text("Hel");
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            on_text("lo");
        }
        self.chat(request)
    }
}

#[aether::test]
async fn a_sweep_names_the_crash_behind_which_a_text_is_not_the_answer(sim: Sim<reply>) {
    let sim = sim.provide(Models::new(Garbles::default())).real_effect("llm.reply");
    let failed = sim.try_crash_at_every_boundary("Hello".into()).await.unwrap_err();
    assert!(matches!(failed, SimError::Crash { .. }), "{failed}");
    let text = failed.to_string();
    assert!(text.starts_with("crash before write "), "{text}");
    assert!(
        text.contains(r#"stream `reply` of run `sim`: `0:llm.reply` told "Hel", and its answer is "Hello""#),
        "{text}"
    );
    assert!(text.contains("AETHER_CRASH_AT=before-write-"), "{text}");
    // It is not the first question any more.
    let failed = sim.try_crash_at_every_boundary("Hello".into()).await.unwrap_err();
    assert!(matches!(failed, SimError::Undisturbed { .. }), "{failed}");
}
