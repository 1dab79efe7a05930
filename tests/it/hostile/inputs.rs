//! Everything that enters an engine from outside, entered wrongly: unknown names, wrong types, words said twice, at once,
//! too late and by nobody, values that are too large or too deep, and names that hold what no name should.
//!
//! Each is a typed error that names what and where; nothing is recorded of it, what waited goes on waiting, and the
//! engine serves another run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::effect::Payload;
use aether::engine::{EngineBuilder, Limits};
use aether::error::SendError;
use aether::error::{RunError, StartError, VerifyError};
use aether::id::{CommandId, InvocationId, RunId};
use aether::people::{DecideError, Pending, Resolution, WaitFilter, Waiting};
use aether::prelude::*;
use aether::resource::{Inspection, Verifier};
use aether::store::event::ConfirmationDecision;
use aether::store::{Message, Sent, StoreError};
use aether::view::Status;
use jiff::Timestamp;

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time, json, run_id, stores};

/// The newest callback token.
#[derive(Clone, Debug, Default)]
pub(super) struct Token(Arc<Mutex<Option<String>>>);

impl Token {
    pub(super) async fn get(&self) -> String {
        in_time(async {
            loop {
                if let Some(token) = self.0.lock().unwrap().clone() {
                    return token;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await
    }
}

/// Pay if a person agrees.
#[step(effect = "tool", approval = "required")]
pub(super) async fn in_pay(_cx: &mut StepCx, amount: u32) -> Result<u32> {
    Ok(amount)
}

/// Have something made elsewhere.
#[step(effect = "tool")]
pub(super) async fn in_hand_over(cx: &mut StepCx) -> Result<u32> {
    let callback = cx.callback()?;
    *cx.dep::<Token>()?.0.lock().unwrap() = Some(callback.token().to_owned());
    Err(callback.pending().into())
}

/// Lose the answer; an operator is asked.
#[step(effect = "tool", on_unknown = "ask")]
pub(super) async fn in_lose(_cx: &mut StepCx) -> Result<u32> {
    Err(Failure::unknown("the line went dead"))
}

/// Change a file; an operator is asked where it is not as it was left.
#[step(effect = "tool", changes = ["file"], confirm = "ask")]
async fn in_change(cx: &mut StepCx) -> Result<u32> {
    cx.changed("file", "a", "write").version("1");
    Ok(3)
}

#[workflow]
pub(super) async fn in_ask(cx: &mut Cx) -> Result<u32> {
    Ok(cx.ask::<u32>("How many?").await?)
}

#[workflow]
pub(super) async fn in_paying(cx: &mut Cx) -> Result<u32> {
    Ok(in_pay(cx, 3).await?)
}

#[workflow]
pub(super) async fn in_handing_over(cx: &mut Cx) -> Result<u32> {
    Ok(in_hand_over(cx).await?)
}

#[workflow]
pub(super) async fn in_losing(cx: &mut Cx) -> Result<u32> {
    Ok(in_lose(cx).await?)
}

#[workflow]
async fn in_changing(cx: &mut Cx) -> Result<u32> {
    let n = in_change(cx).await?;
    cx.now().await;
    Ok(n)
}

/// Wait for a signal of this name.
#[workflow]
async fn in_listening(cx: &mut Cx, name: String) -> Result<u32> {
    Ok(cx.signal::<u32>(&name).await?)
}

/// Do as asked.
#[workflow]
async fn in_fine(cx: &mut Cx, n: u32) -> Result<u32> {
    cx.now().await;
    Ok(n)
}

/// Finds every file changed.
#[derive(Debug)]
struct Suspicious;

impl Verifier for Suspicious {
    fn name(&self) -> &str {
        "suspicious"
    }

    fn look<'a>(
        &'a self,
        _run: &'a RunId,
        _change: &'a aether::store::event::StateChanged,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Inspection>> + Send + 'a>> {
        let seen = Inspection::Differs { expected: "1".into(), found: "2".into() };
        Box::pin(std::future::ready(Ok(seen)))
    }
}

pub(super) fn hostile(place: &Place, token: &Token) -> EngineBuilder {
    builder(&place.store, &Calls::default()).provide(token.clone()).verifier("file", Suspicious)
}

pub(super) async fn serves_another(engine: &Engine) {
    let run = engine.start::<in_fine>(5).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 5);
}

/// What `run` waits for, once it does.
pub(super) async fn waits(engine: &Engine, run: &str, waiting: Waiting) -> Pending {
    in_time(async {
        loop {
            let open = engine.pending(&run_id(run)).await.unwrap();
            if let Some(found) = open.into_iter().find(|open| open.waiting == waiting) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

/// An engine with one run for each kind of wait, which all wait.
async fn all_waiting(place: &Place, token: &Token) -> (Engine, Vec<Pending>) {
    Journal::record::<in_changing>("changing", ()).await.open().plant(&place.store, Rows::Follow).await;
    let engine = hostile(place, token).start().await.unwrap();
    engine.start::<in_ask>(()).id("ask").await.unwrap();
    engine.start::<in_paying>(()).id("paying").await.unwrap();
    engine.start::<in_handing_over>(()).id("handing").await.unwrap();
    engine.start::<in_losing>(()).id("losing").await.unwrap();
    let mut waiting = Vec::new();
    for (run, kind) in [
        ("ask", Waiting::Question),
        ("paying", Waiting::Approval),
        ("handing", Waiting::Callback),
        ("losing", Waiting::Resolution),
        ("changing", Waiting::Confirmation),
    ] {
        waiting.push(waits(&engine, run, kind).await);
    }
    (engine, waiting)
}

/// The journals of runs that wait; those of the others are not at rest.
async fn journals(place: &Place) -> Vec<Journal> {
    let mut all = Vec::new();
    for run in ["ask", "paying", "handing", "losing", "changing"] {
        let mut journal = Journal::read(&place.store, run).await;
        journal.events.retain(|event| event.kind() != "run_waiting");
        all.push(journal);
    }
    all
}

/// Says every kind of word about `run` and `command`.
async fn every_word(engine: &Engine, run: &RunId, command: &CommandId, actor: &str) -> Vec<DecideError> {
    let invocation = InvocationId::new(command, 0);
    let accept = ConfirmationDecision::Accept;
    let words = [
        engine.approve(run, command, actor).await,
        engine.approve_with(run, command, &serde_json::json!({"amount": 1}), actor).await,
        engine.reject(run, command, "no", actor).await,
        engine.answer(run, command, &1, actor).await,
        engine.resolve(run, &invocation, Resolution::DidNotHappen, actor).await,
        engine.confirm(run, command, "file", "a", accept, actor).await,
    ];
    words.into_iter().map(|word| word.unwrap_err()).collect()
}

#[tokio::test]
async fn what_is_unknown_is_a_typed_error_and_changes_nothing() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let (engine, waiting) = all_waiting(&place, &token).await;
        let before = journals(&place).await;
        let (nobody, command) = (run_id("nobody"), CommandId::new("0", "in_pay"));
        for error in every_word(&engine, &nobody, &command, "ann").await {
            let known =
                matches!(&error, DecideError::Store(StoreError::UnknownRun { run }) if *run == nobody);
            assert!(known, "{error}");
        }
        let unknown = StoreError::UnknownRun { run: nobody.clone() };
        assert_eq!(engine.signal(&nobody, "go", "1", &1).await, Err(SendError::Store(unknown.clone())));
        assert_eq!(engine.cancel(&nobody, "no", "ann").await, Err(SendError::Store(unknown.clone())));
        assert_eq!(engine.terminate(&nobody, "no", "ann").await, Err(SendError::Store(unknown.clone())));
        assert_eq!(engine.pending(&nobody).await, Err(unknown.clone()));
        assert_eq!(engine.view(&nobody).await.map(drop), Err(unknown.clone()));
        assert_eq!(engine.trace(&nobody).await.map(drop), Err(unknown.clone()));
        assert!(engine.export(&nobody).await.is_err_and(|error| error.to_string().contains("`nobody`")));
        assert!(matches!(engine.find("nobody").await, Err(StartError::Store(error)) if error == unknown));
        assert!(engine.handle::<in_fine>("nobody").await.is_err());
        assert!(matches!(engine.verify(&nobody).await, Err(VerifyError::Fault(_))));

        let elsewhere = CommandId::new("7.b3.1", "nothing");
        for open in &waiting {
            for error in every_word(&engine, &open.run, &elsewhere, "ann").await {
                assert!(matches!(error, DecideError::UnknownCommand { .. }), "{error}");
            }
            // Words of every kind but the one that is waited for.
            let mut wrong = Vec::new();
            for error in every_word_but(&engine, open).await {
                assert!(matches!(error, DecideError::NotWaiting { .. }), "{error}");
                wrong.push(error.to_string());
            }
            assert!(wrong.iter().all(|error| error.contains(open.run.as_str())), "{wrong:?}");
        }
        let genuine = token.get().await;
        let forged =
            format!("{}{}", &genuine[..genuine.len() - 1], if genuine.ends_with('0') { '1' } else { '0' });
        let huge = "cb1.".to_owned() + &"6".repeat(1 << 20);
        for wrong in ["", "cb1", "\0", "cb1....", &forged, &genuine[1..], &huge, &format!("{genuine} ")] {
            let error = engine.complete_callback(wrong, &1).await.unwrap_err();
            assert!(matches!(&error, DecideError::UnknownToken { .. }), "{error}");
            assert!(error.to_string().len() < 300, "{error}");
        }
        assert_eq!(journals(&place).await, before);
        serves_another(&engine).await;
    }
}

/// Says every kind of word that `open` does not wait for.
async fn every_word_but(engine: &Engine, open: &Pending) -> Vec<DecideError> {
    let (run, command) = (&open.run, &open.command);
    let mut errors = Vec::new();
    if open.waiting != Waiting::Approval {
        errors.extend(engine.approve(run, command, "ann").await.err());
        errors.extend(engine.reject(run, command, "no", "ann").await.err());
    }
    if open.waiting != Waiting::Question {
        errors.extend(engine.answer(run, command, &1, "ann").await.err());
    }
    let another = if open.waiting == Waiting::Resolution { 7 } else { 0 };
    let invocation = InvocationId::new(command, another);
    errors.extend(engine.resolve(run, &invocation, Resolution::Abandon, "ann").await.err());
    let accept = ConfirmationDecision::Accept;
    errors.extend(engine.confirm(run, command, "file", "another", accept, "ann").await.err());
    assert!(errors.len() >= 3, "{errors:?}");
    errors
}

#[tokio::test]
async fn nobody_decides_nothing() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let (engine, waiting) = all_waiting(&place, &token).await;
        let before = journals(&place).await;
        for actor in ["", " ", "\t\r\n", "\u{a0}\u{2003}"] {
            for open in &waiting {
                for error in every_word(&engine, &open.run, &open.command, actor).await {
                    assert!(matches!(error, DecideError::NoActor { .. }), "{error}");
                }
                let nobody = Err(SendError::NoActor { run: open.run.clone() });
                assert_eq!(engine.cancel(&open.run, "no", actor).await, nobody);
                assert_eq!(engine.terminate(&open.run, "no", actor).await, nobody);
                let handle = engine.find(open.run.as_str()).await.unwrap();
                assert_eq!(handle.cancel("no", actor).await, nobody);
                assert_eq!(handle.terminate("no", actor).await, nobody);
            }
        }
        assert_eq!(journals(&place).await, before);
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn what_has_another_type_is_refused_and_the_wait_goes_on() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let (engine, waiting) = all_waiting(&place, &token).await;
        let [ask, paying, handing, losing, _] = waiting.as_slice() else { panic!() };
        let misfit = |error: DecideError, of: &Pending| {
            let said = error.to_string();
            assert!(matches!(error, DecideError::Misfit { .. }), "{said}");
            assert!(said.contains(of.run.as_str()) && said.contains(of.command.as_str()), "{said}");
        };
        for wrong in [json("null"), json("\"3\""), json("-1"), json("[[]]"), json("{\"amount\":\"3\"}")] {
            misfit(
                engine.approve_with(&paying.run, &paying.command, &wrong, "ann").await.unwrap_err(),
                paying,
            );
            misfit(engine.complete_callback(&token.get().await, &wrong).await.unwrap_err(), handing);
            let happened = Resolution::Happened(wrong.clone());
            let invocation = losing.invocation.as_ref().unwrap();
            misfit(engine.resolve(&losing.run, invocation, happened, "ann").await.unwrap_err(), losing);
        }
        misfit(engine.fail_callback(&token.get().await, &7).await.unwrap_err(), handing);
        engine.answer(&ask.run, &ask.command, "three", "ann").await.unwrap();
        in_time(async {
            while waits(&engine, "ask", Waiting::Question).await.refused.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        let taken = engine.start::<in_paying>(()).id("ask").await.unwrap_err();
        assert!(matches!(&taken, StartError::IdTaken { difference: "another workflow", .. }), "{taken}");
        assert!(matches!(engine.handle::<in_fine>("ask").await, Err(StartError::IdTaken { .. })));

        end_well(&engine, &waiting, &token).await;
        serves_another(&engine).await;
    }
}

/// Says the right words, and expects the right ends.
async fn end_well(engine: &Engine, waiting: &[Pending], token: &Token) {
    for open in waiting {
        let (run, command) = (&open.run, &open.command);
        match open.waiting {
            Waiting::Question => engine.answer(run, command, &3, "ann").await.unwrap(),
            Waiting::Approval => engine.approve(run, command, "ann").await.unwrap(),
            Waiting::Callback => {
                assert_eq!(engine.complete_callback(&token.get().await, &3).await, Ok(Sent::Delivered));
            }
            Waiting::Resolution => {
                let happened = Resolution::Happened(json("3"));
                engine.resolve(run, open.invocation.as_ref().unwrap(), happened, "ann").await.unwrap();
            }
            _ => {
                let accept = ConfirmationDecision::Accept;
                engine.confirm(run, command, "file", "a", accept, "ann").await.unwrap();
            }
        }
        let end = in_time(engine.find(run.as_str()).await.unwrap().end()).await.unwrap();
        assert!(
            matches!(&end, aether::engine::RunEnd::Completed(value) if value.as_str() == "3"),
            "{run}: {end:?}"
        );
        engine.verify(run).await.unwrap();
    }
}

#[tokio::test]
async fn of_many_words_at_once_one_is_taken() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let (engine, waiting) = all_waiting(&place, &token).await;
        let mut words = Vec::new();
        for number in 0..6 {
            let (engine, token, waiting) = (engine.clone(), token.get().await, waiting.clone());
            words.push(tokio::spawn(async move {
                let actor = format!("p{number}");
                let [ask, _, _, losing, changing] = waiting.as_slice() else { panic!() };
                let happened = Resolution::Happened(json("3"));
                let invocation = losing.invocation.as_ref().unwrap();
                let accept = ConfirmationDecision::Accept;
                let said = [
                    engine.answer(&ask.run, &ask.command, &3, &actor).await,
                    engine.resolve(&losing.run, invocation, happened, &actor).await,
                    engine.confirm(&changing.run, &changing.command, "file", "a", accept, &actor).await,
                ];
                (said, engine.complete_callback(&token, &3).await)
            }));
        }
        let (mut taken, mut delivered) = ([0; 3], 0);
        for word in words {
            let (said, reported) = word.await.unwrap();
            for (taken, said) in taken.iter_mut().zip(said) {
                match said {
                    Ok(()) => *taken += 1,
                    Err(DecideError::AlreadyDecided { by, .. }) => assert!(by.starts_with('p'), "{by}"),
                    Err(DecideError::RunEnded { status: Status::Completed, .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            match reported.unwrap() {
                Sent::Delivered => delivered += 1,
                other => assert_eq!(other, Sent::Duplicate),
            }
        }
        assert_eq!((taken, delivered), ([1, 1, 1], 1));
        for run in ["ask", "losing", "changing", "handing"] {
            let end = in_time(engine.find(run).await.unwrap().end()).await.unwrap();
            assert!(
                matches!(&end, aether::engine::RunEnd::Completed(value) if value.as_str() == "3"),
                "{end:?}"
            );
        }
    }
}

#[tokio::test]
async fn nothing_can_be_said_to_a_finished_run() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let (engine, waiting) = all_waiting(&place, &token).await;
        end_well(&engine, &waiting, &token).await;
        let before = journals(&place).await;
        for open in &waiting {
            for error in every_word(&engine, &open.run, &open.command, "bob").await {
                assert!(matches!(error, DecideError::RunEnded { status: Status::Completed, .. }), "{error}");
            }
            let ended = Ok(Sent::RunEnded(Status::Completed));
            assert_eq!(engine.signal(&open.run, "go", "1", &1).await, ended);
            assert_eq!(engine.cancel(&open.run, "late", "bob").await, ended);
            assert_eq!(engine.terminate(&open.run, "late", "bob").await, ended);
        }
        assert_eq!(engine.complete_callback(&token.get().await, &4).await, Ok(Sent::Duplicate));
        assert_eq!(journals(&place).await, before);
        assert!(engine.all_pending(WaitFilter::default()).await.unwrap().waits.is_empty());
        serves_another(&engine).await;
    }
}

/// Give back a text of this length, or fail with one.
#[step(effect = "tool")]
async fn in_length(_cx: &mut StepCx, length: usize, fail: bool) -> Result<String> {
    let text = "x".repeat(length);
    if fail { Err(Failure::permanent(text)) } else { Ok(text) }
}

/// What comes of a result and an error of this length; and is itself of that length.
#[workflow]
async fn in_large(cx: &mut Cx, length: usize) -> Result<String> {
    for fail in [false, true] {
        match in_length(cx, length, fail).await {
            Err(StepError::Unrecordable(failure)) => {
                assert!(failure.to_string().contains("over the limit"), "{failure}");
            }
            other => panic!("{:?}", other.map(|text| text.len()).map_err(|error| error.to_string().len())),
        }
    }
    Ok("y".repeat(length))
}

#[tokio::test]
async fn a_hundred_megabytes_are_refused_wherever_they_come_in() {
    const LARGE: usize = 100 << 20;
    let (place, token) = (Place::memory(), Token::default());
    let (engine, waiting) = all_waiting(&place, &token).await;
    let before = journals(&place).await;
    let large = Payload::encode(&"x".repeat(LARGE)).unwrap();
    let over = |result: Result<(), DecideError>| match result {
        Err(DecideError::Send(SendError::OverLimit(over))) => assert!(over.size >= LARGE, "{over}"),
        other => panic!("{other:?}"),
    };
    let refused = engine.start::<in_listening>("x".repeat(LARGE)).id("large").await.unwrap_err();
    assert!(matches!(refused, StartError::TooLarge { workflow: "in_listening", .. }), "{refused}");
    assert!(place.store.run(&run_id("large")).await.unwrap().is_none());
    let [ask, paying, _, losing, _] = waiting.as_slice() else { panic!() };
    over(engine.answer(&ask.run, &ask.command, &large, "ann").await);
    over(engine.reject(&paying.run, &paying.command, large.as_str(), "ann").await);
    over(engine.approve(&paying.run, &paying.command, large.as_str()).await);
    over(engine.signal(&ask.run, "go", "1", &large).await.map(drop).map_err(DecideError::from));
    over(engine.signal(&ask.run, large.as_str(), "1", &1).await.map(drop).map_err(DecideError::from));
    over(engine.cancel(&ask.run, large.as_str(), "ann").await.map(drop).map_err(DecideError::from));
    over(engine.fail_callback(&token.get().await, &Failure::permanent(large.as_str())).await.map(drop));
    let edited = engine.approve_with(&paying.run, &paying.command, &large, "ann").await;
    assert!(matches!(edited, Err(DecideError::Misfit { .. })));
    let happened = Resolution::Happened(large.clone());
    let resolved = engine.resolve(&losing.run, losing.invocation.as_ref().unwrap(), happened, "ann").await;
    assert!(matches!(resolved, Err(DecideError::Misfit { .. })));
    assert_eq!(journals(&place).await, before);

    let run = engine.start::<in_large>(40 << 20).await.unwrap();
    let Err(RunError::Failed(failure)) =
        tokio::time::timeout(Duration::from_secs(240), run.result()).await.unwrap()
    else {
        panic!()
    };
    assert!(failure.to_string().contains("over the limit"), "{failure}");
    end_well(&engine, &waiting, &token).await;
    serves_another(&engine).await;
}

#[tokio::test]
async fn a_callback_cannot_bring_in_an_error_over_the_limit() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let limits = Limits { error: 1_000, ..Limits::default() };
        let engine = hostile(&place, &token).limits(limits).start().await.unwrap();
        let run = engine.start::<in_handing_over>(()).id("handing").await.unwrap();
        let open = waits(&engine, "handing", Waiting::Callback).await;
        let long = Failure::permanent("e".repeat(5_000));
        let refused = engine.fail_callback(&token.get().await, &long).await;
        let over =
            matches!(&refused, Err(DecideError::Send(SendError::OverLimit(over))) if over.name == "error");
        assert!(over, "{refused:?}");
        // A program with other limits lets it through: the run itself refuses it, on the record.
        let lax = hostile(&place, &token).max_active(1).start().await.unwrap();
        assert_eq!(lax.fail_callback(&token.get().await, &long).await, Ok(Sent::Delivered));
        let refused = in_time(async {
            loop {
                let refused = engine.pending(run.id()).await.unwrap().remove(0).refused;
                if let Some(refused) = refused.first() {
                    return refused.1.clone();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        assert!(refused.contains("`Limits::error`") && refused.len() < 1_000, "{refused}");
        end_well(&engine, &[open], &token).await;
    }
}

#[tokio::test]
async fn text_nested_a_hundred_thousand_deep_is_a_typed_error() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Payload::from_text(deep.clone()).unwrap_err().to_string().contains("limit of 127"));
    let recording = format!("{{\"format\":\"aether-recording\",\"version\":1,\"runs\":{deep}}}");
    let refused = aether::recording::Recording::parse(&recording).unwrap_err().to_string();
    assert!(refused.len() < 1_000, "{refused}");
    assert_eq!(aether::recording::Masking::standard().key("pin").redact(&deep).len(), 200 + "\"***\"".len());
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let engine = hostile(&place, &token).start().await.unwrap();
        // As text inside a string it is a string; masking looks into it.
        let run = engine.start::<in_listening>(deep.clone()).id("deep").await.unwrap();
        let end = in_time(run.result()).await.unwrap_err().to_string();
        assert!(end.contains("the signal's name") && end.len() < 1_000, "{end}");
        engine.export(run.id()).await.unwrap();
        // Another program may put a message into the inbox.
        engine.start::<in_ask>(()).id("ask").await.unwrap();
        let open = waits(&engine, "ask", Waiting::Question).await;
        let topic = format!("answer:{}", open.command);
        for (seq, payload) in ["7", "{}", "\"\"", "{\"reply\":[],\"actor\":[]}"].into_iter().enumerate() {
            let id = format!("forged {seq}");
            let message =
                Message { seq: 0, id, topic: topic.clone(), payload: json(payload), at: Timestamp::now() };
            place.store.send(&open.run, message).await.unwrap();
        }
        in_time(async {
            while waits(&engine, "ask", Waiting::Question).await.refused.len() < 4 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        end_well(&engine, &[open], &token).await;
        serves_another(&engine).await;
    }
}

#[tokio::test]
async fn names_that_hold_anything_are_refused_or_kept_as_they_are() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let engine = hostile(&place, &token).start().await.unwrap();
        for id in ["", "a\0b", "a\nb", "\u{1b}[2J", "\u{85}", &"é".repeat(101)] {
            assert!(matches!(engine.start::<in_fine>(1).id(id).await, Err(StartError::Id(_))), "{id:?}");
            assert!(matches!(engine.find(id).await, Err(StartError::Id(_))), "{id:?}");
        }
        // Postgres stores no text with this character; it refuses the message and nothing else.
        let holds_nul = !place.store.describe().starts_with("postgres");
        let stored = |name: &&str| holds_nul || !name.contains('\0');
        for name in ["go", "", "a\0b", "'; DROP TABLE runs; --", "\u{202e}og", "%_*", "go\n"]
            .into_iter()
            .filter(stored)
        {
            let run = engine.start::<in_listening>(name.to_owned()).await.unwrap();
            let another = engine.signal(run.id(), "another\0", "\0", &9).await;
            assert_eq!(another.is_ok_and(|sent| sent == Sent::Delivered), holds_nul);
            assert_eq!(engine.signal(run.id(), name, name, &3).await, Ok(Sent::Delivered));
            assert_eq!(
                engine.signal(run.id(), name, name, &4).await.map(|sent| sent != Sent::Delivered),
                Ok(true)
            );
            assert_eq!(in_time(run.result()).await.unwrap(), 3, "{name:?}");
            engine.verify(run.id()).await.unwrap();
        }
        // An actor cannot forge a line of the trace.
        let run = engine.start::<in_paying>(()).id("paying").await.unwrap();
        let open = waits(&engine, "paying", Waiting::Approval).await;
        let forger = "ann\n  2026-01-01T00:00:00Z  forged by the board\r\u{2028}\0";
        engine.reject(&open.run, &open.command, "no\nnever", forger).await.unwrap();
        assert!(in_time(run.result()).await.is_err());
        let trace = engine.trace(run.id()).await.unwrap();
        let text = trace.to_string();
        assert!(text.contains("forged"), "{text}");
        assert_eq!(text.lines().count(), trace.entries.len() + 1, "{text}");
        assert!(!text.contains(['\r', '\0', '\u{2028}']), "{text:?}");
        serves_another(&engine).await;
    }
}
