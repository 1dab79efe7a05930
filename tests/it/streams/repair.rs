//! What becomes of a stream when processes die between any two writes, when branches lose, and when a run continues as new.

use std::sync::{Barrier, Mutex};
use std::time::Duration;

use aether::definition::Workflow;
use aether_testing::crash::CrashPoint;

use super::*;
use crate::seeds::kit::{Place, stores_at, take_from_owner};

/// Runs `W` in a process that dies at `point`, then to its end in another one, and gives what it returned with what a late
/// reader gets; `None` where the point is behind its end.
async fn died<W>(
    place: &Place,
    point: CrashPoint,
    input: W::Input,
) -> Option<(W::Output, Vec<StreamEvent<String>>)>
where
    W: Workflow<Error = Failure>,
{
    let dying = Arc::new(CrashStore::new(place.store.clone(), Some(point)));
    let first = builder(&(dying.clone() as Arc<dyn Store>), &Calls::default()).provide(Cut::never());
    let first = first.start().await.unwrap();
    let whole = async { first.start::<W>(input).id("a").await.unwrap().result().await.map(drop) };
    let ended = tokio::select! {
        _ended = in_time(whole) => true,
        () = in_time(dying.crashed()) => false,
    };
    if ended {
        first.shutdown().await.unwrap();
        return None;
    }
    drop(first);
    let held = place.store.run(&run_id("a")).await.unwrap().unwrap();
    take_from_owner(&place.store, &held, aether::jiff::Timestamp::UNIX_EPOCH).await;
    let second = builder(&place.again(), &Calls::default()).provide(Cut::never()).start().await.unwrap();
    let run = second.handle::<W>("a").await.unwrap();
    let outcome = in_time(run.result()).await.unwrap();
    let events = events(&run, 0).await;
    second.shutdown().await.unwrap();
    Some((outcome, events))
}

/// The points between the appends of a run, on every store.
async fn at_each_point<W>(input: W::Input, check: impl Fn(W::Output, Vec<StreamEvent<String>>, &str))
where
    W: Workflow<Error = Failure, Input: Clone>,
{
    for number in 1.. {
        let mut is_behind = false;
        for (at, point) in [CrashPoint::After(number), CrashPoint::Before(number + 1)].into_iter().enumerate()
        {
            for make in stores_at(2 * usize::try_from(number).unwrap() + at) {
                match died::<W>(&make(), point, input.clone()).await {
                    Some((outcome, events)) => check(outcome, events, &point.id()),
                    None => is_behind = true,
                }
            }
        }
        if is_behind {
            assert!(number > 2, "{number} appends");
            return;
        }
    }
}

#[tokio::test]
async fn the_marks_of_a_success_are_there_whenever_its_process_dies() {
    at_each_point::<answer>(4, |outcome, events, point| {
        assert_eq!(text_of(&events), outcome, "{point}");
        let committed = events.iter().filter(|event| matches!(event, StreamEvent::Committed { .. }));
        assert_eq!(committed.count(), 1, "{point}: {events:?}");
        let [.., StreamEvent::Chunk { items, .. }, StreamEvent::Committed { .. }, StreamEvent::Closed { .. }] =
            &events[..]
        else {
            panic!("{point}: {events:?}")
        };
        assert_eq!(*items, words(4), "{point}: one chunk for the answer");
    })
    .await;
}

#[tokio::test]
async fn what_a_failed_step_sent_is_gone_whenever_its_process_dies() {
    at_each_point::<try_to_answer>(true, |outcome, events, point| {
        assert_eq!((outcome, text_of(&events)), (String::new(), String::new()), "{point}: {events:?}");
    })
    .await;
}

/// Say something, unless it is to be quiet.
#[step(effect = "read")]
async fn mumble(cx: &mut StepCx) -> Result<String> {
    let cut = cx.dep::<Cut>()?;
    if cut.at.load(Ordering::SeqCst) > 0 {
        return Ok(String::new());
    }
    cx.stream("reply").send("mumble");
    cut.reached.notify_one();
    std::future::pending().await
}

#[workflow]
async fn mumbled(cx: &mut Cx, input: ()) -> Result<String> {
    let () = input;
    Ok(mumble(cx).await?)
}

#[tokio::test]
async fn a_step_that_sends_nothing_when_it_is_called_again_leaves_nothing() {
    for make in stores() {
        let place = make();
        let cut = Cut::default();
        let dying = Arc::new(CrashStore::new(place.store.clone(), None));
        let first = builder(&(dying.clone() as Arc<dyn Store>), &Calls::default()).provide(cut.clone());
        let first = first.start().await.unwrap();
        let run = first.start::<mumbled>(()).id("a").await.unwrap();
        let mut live = run.stream::<String>("reply").text();
        assert_eq!(in_time(live.next()).await.unwrap().as_deref(), Some("mumble"));
        dying.crash();
        drop((run, first));
        let held = place.store.run(&run_id("a")).await.unwrap().unwrap();
        take_from_owner(&place.store, &held, aether::jiff::Timestamp::UNIX_EPOCH).await;
        cut.at.store(1, Ordering::SeqCst);
        let second = builder(&place.again(), &Calls::default()).provide(cut).start().await.unwrap();
        let run = second.handle::<mumbled>("a").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "");
        assert_eq!(text_of(&events(&run, 0).await), "");
        assert_eq!(place.store.open_streams(&run_id("a")).await, Ok(Vec::new()));
        second.shutdown().await.unwrap();
    }
}

/// Answers in as many generations.
#[workflow]
async fn answer_again(cx: &mut Cx, input: (u32, String)) -> Result<String> {
    let (left, before) = input;
    let so_far = before + &say(cx, 2).await?;
    if left == 0 {
        return Ok(so_far);
    }
    cx.continue_as_new::<answer_again>((left - 1, so_far)).await
}

#[tokio::test]
async fn the_text_of_all_generations_stays_wherever_a_process_dies() {
    at_each_point::<answer_again>((2, String::new()), |outcome, events, point| {
        assert_eq!(text_of(&events), outcome, "{point}: {events:?}");
        let seqs: Vec<_> = events.iter().map(seq_of).collect();
        assert!(seqs.is_sorted(), "{point}: {seqs:?}");
    })
    .await;
}

/// Say a word and wait for ever.
#[step(effect = "read")]
async fn linger(cx: &mut StepCx) -> Result<String> {
    cx.stream("reply").send("lost ");
    cx.dep::<Cut>()?.reached.notify_one();
    std::future::pending().await
}

/// Win when the other one has spoken.
#[step(effect = "read")]
async fn win(cx: &mut StepCx) -> Result<String> {
    cx.dep::<Cut>()?.reached.notified().await;
    cx.stream("reply").send("won");
    Ok("won".to_owned())
}

#[workflow]
async fn hedged(cx: &mut Cx, input: ()) -> Result<String> {
    let () = input;
    let first: Result<String> = cx
        .race((
            async |cx: &mut Cx| -> Result<String> { Ok(linger(cx).await?) },
            async |cx: &mut Cx| -> Result<String> { Ok(win(cx).await?) },
        ))
        .await;
    first
}

#[tokio::test]
async fn what_a_branch_sent_that_lost_does_not_count() {
    for make in stores() {
        let place = make();
        let engine = builder(&place.store, &Calls::default()).provide(Cut::never()).start().await.unwrap();
        let run = engine.start::<hedged>(()).id("a").await.unwrap();
        let live = tokio::spawn(run.stream::<String>("reply").text().whole());
        assert_eq!(in_time(run.result()).await.unwrap(), "won");
        assert_eq!(in_time(live).await.unwrap().unwrap(), "won");
        assert_eq!(text_of(&events(&run, 0).await), "won");
        engine.shutdown().await.unwrap();
    }
}

/// Say something, take it back, and say something else.
#[step(effect = "read")]
async fn correct_oneself(cx: &mut StepCx, last: bool) -> Result<String> {
    let reply = cx.stream("reply");
    reply.send("wrong");
    reply.restart();
    if last {
        reply.send("right");
    }
    Ok("right".to_owned())
}

#[workflow]
async fn corrected(cx: &mut Cx, last: bool) -> Result<String> {
    Ok(correct_oneself(cx, last).await?)
}

#[tokio::test]
async fn a_body_can_take_back_what_it_said() {
    for make in stores() {
        let place = make();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        for (id, last, text) in [("a", true, "right"), ("b", false, "")] {
            let run = engine.start::<corrected>(last).id(id).await.unwrap();
            in_time(run.result()).await.unwrap();
            assert_eq!(text_of(&events(&run, 0).await), text);
        }
        engine.shutdown().await.unwrap();
    }
}

/// Takes run `a` from the worker that holds it, which is not told, and gives the last epoch of that worker when another one has it. An
/// engine that looks for due runs for the first time may take its own back.
async fn taken_away(place: &Place) -> u64 {
    let held = place.store.run(&run_id("a")).await.unwrap().unwrap();
    let (mut now, mut lost) = (held.clone(), held.epoch);
    loop {
        if now.owner == held.owner {
            lost = now.epoch;
            take_from_owner(&place.store, &now, aether::jiff::Timestamp::UNIX_EPOCH).await;
        } else if now.owner.is_some() {
            return lost;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        now = place.store.run(&run_id("a")).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn workers_of_which_one_has_lost_the_run_interleave_nothing() {
    for make in stores() {
        let place = make();
        let (stale, owner) = (Cut::default(), Cut::default());
        stale.at.store(3, Ordering::SeqCst);
        owner.at.store(3, Ordering::SeqCst);
        // It does not look for runs that are due, and so does not claim its own again.
        let first =
            builder(&place.store, &Calls::default()).max_active(1).poll_interval(Duration::from_secs(3_600));
        let first = first.provide(stale.clone());
        let first = first.start().await.unwrap();
        let run = first.start::<answer>(40).id("a").await.unwrap();
        in_time(stale.reached.notified()).await;
        let second = builder(&place.again(), &Calls::default()).provide(owner.clone()).start().await.unwrap();
        let lost = in_time(taken_away(&place)).await;
        in_time(owner.reached.notified()).await;
        // Both go on at once.
        stale.go_on();
        owner.go_on();
        let elsewhere = second.handle::<answer>("a").await.unwrap();
        let live = tokio::spawn(elsewhere.stream::<String>("reply").text().whole());
        assert_eq!(in_time(elsewhere.result()).await.unwrap(), words(40).concat());
        assert_eq!(in_time(live).await.unwrap().unwrap(), words(40).concat());
        let epochs = place.store.stream(&run_id("a"), "reply", 0, 1000).await.unwrap();
        assert!(epochs.iter().all(|item| item.epoch > lost), "{epochs:?}");
        drop(run);
        first.shutdown().await.unwrap();
        second.shutdown().await.unwrap();
    }
}

/// Say something that does not stay, or does, and answer at length.
#[step(effect = "read", retry(max_retries = 1, delay = "1ms"))]
async fn answer_at_length(cx: &mut StepCx, how: String) -> Result<String> {
    let reply = cx.stream("reply");
    if cx.attempt() == 0 {
        reply.send("said");
        // So long that it is written.
        tokio::time::sleep(Duration::from_millis(200)).await;
        match &*how {
            "fails" => return Err(Failure::retryable("again")),
            "takes back" => reply.restart(),
            _ => {}
        }
    }
    Ok("x".repeat(100_000))
}

#[workflow]
async fn answered_at_length(cx: &mut Cx, how: String) -> Result<usize> {
    Ok(answer_at_length(cx, how).await?.len())
}

#[tokio::test]
async fn of_a_large_outcome_only_its_own_text_stays_when_its_process_dies_before_the_append() {
    for make in stores() {
        for (how, text) in [("fails", ""), ("takes back", ""), ("stays", "said")] {
            let died = died::<answered_at_length>(&make(), CrashPoint::AfterEffect(1), how.to_owned()).await;
            let (outcome, events) = died.unwrap();
            assert_eq!((outcome, &*text_of(&events)), (100_000, text), "{how}: {events:?}");
        }
    }
}

/// The token of a callback.
#[derive(Clone, Default)]
struct Token(Arc<Mutex<String>>);

/// Say half of something and wait for ever.
#[step(effect = "tool")]
async fn say_half(cx: &mut StepCx) -> Result<String> {
    *cx.dep::<Token>()?.0.lock().unwrap() = cx.callback()?.token().to_owned();
    cx.stream("reply").send("half");
    std::future::pending().await
}

#[workflow]
async fn half_said(cx: &mut Cx, input: ()) -> Result<String> {
    let () = input;
    Ok(say_half(cx).await.unwrap_or_else(|_| "in doubt".to_owned()))
}

#[tokio::test]
async fn what_a_body_sent_that_was_killed_is_gone_when_somebody_else_reports_its_outcome_or_nobody_does() {
    for make in stores() {
        for outcome in ["whole", "in doubt"] {
            let (place, token) = (make(), Token::default());
            let dying = Arc::new(CrashStore::new(place.store.clone(), None));
            let first = builder(&(dying.clone() as Arc<dyn Store>), &Calls::default()).provide(token.clone());
            let first = first.start().await.unwrap();
            let run = first.start::<half_said>(()).id("a").await.unwrap();
            let mut live = run.stream::<String>("reply").text();
            assert_eq!(in_time(live.next()).await.unwrap().as_deref(), Some("half"));
            dying.crash();
            drop((live, run, first));
            let client = builder(&place.again(), &Calls::default()).client().start().await.unwrap();
            if outcome == "whole" {
                let token = token.0.lock().unwrap().clone();
                client.complete_callback(&token, outcome).await.unwrap();
            }
            let held = place.store.run(&run_id("a")).await.unwrap().unwrap();
            take_from_owner(&place.store, &held, aether::jiff::Timestamp::UNIX_EPOCH).await;
            let second = builder(&place.again(), &Calls::default()).provide(token).start().await.unwrap();
            let run = second.handle::<half_said>("a").await.unwrap();
            assert_eq!(in_time(run.result()).await.unwrap(), outcome);
            assert_eq!(text_of(&events(&run, 0).await), "", "{outcome}");
            assert_eq!(place.store.open_streams(&run_id("a")).await, Ok(Vec::new()));
            second.shutdown().await.unwrap();
            client.shutdown().await.unwrap();
        }
    }
}

/// Two meet here: a thread that is about to send something, and a body.
#[derive(Clone)]
struct Meeting(Arc<Barrier>);

/// An item that is on its way for as long as the body likes.
struct Late(Arc<Meeting>);

impl serde::Serialize for Late {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let Meeting(meeting) = &*self.0;
        meeting.wait();
        meeting.wait();
        to.serialize_str("late")
    }
}

/// Fail while something is on its way, and say something else when called again.
#[step(effect = "read", retry(max_retries = 1, delay = "1ms"))]
async fn say_late(cx: &mut StepCx) -> Result<String> {
    let (reply, meeting) = (cx.stream("reply"), cx.dep::<Meeting>()?);
    if cx.attempt() == 0 {
        let late = Late(Arc::clone(&meeting));
        std::thread::spawn(move || reply.send(&late));
        meeting.0.wait();
        return Err(Failure::retryable("again"));
    }
    reply.send("right");
    // So long that it is written, and then so long that the late item would be.
    tokio::time::sleep(Duration::from_millis(200)).await;
    meeting.0.wait();
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok("right".to_owned())
}

#[workflow]
async fn said_late(cx: &mut Cx, input: ()) -> Result<String> {
    let () = input;
    Ok(say_late(cx).await?)
}

#[tokio::test]
async fn an_item_that_is_on_its_way_when_its_attempt_ends_replaces_nothing() {
    for make in stores() {
        let (place, meeting) = (make(), Meeting(Arc::new(Barrier::new(2))));
        let engine = builder(&place.store, &Calls::default()).provide(meeting).start().await.unwrap();
        let run = engine.start::<said_late>(()).id("a").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), "right");
        assert_eq!(text_of(&events(&run, 0).await), "right");
        engine.shutdown().await.unwrap();
    }
}
