//! Closing records and opening them again: each is the same afterwards, or stays open.

use jiff::Timestamp;

use super::*;
use crate::journal::event::InvocationDecision;
use crate::vocabulary::payload::Payload;

const RUN: &str = "a:b/c";

fn json(text: &str) -> Payload {
    Payload::from_text(text.to_owned()).unwrap()
}

fn named(command: &str, attempt: u32) -> Box<Invocation> {
    let (run, command) = (RunId::new(RUN).unwrap(), CommandId::from(command.to_owned()));
    let (id, key) = (InvocationId::new(&command, attempt), IdempotencyKey::new(&run, &command, attempt));
    Box::new(Invocation::new(id, key, attempt, false))
}

/// A tool that returned a value.
fn sent(command: &str) -> CommandRecord {
    let mut record = CommandRecord::new(command.to_owned().into());
    record.class = Some(EffectClass::Tool);
    record.digest = Digest::of(&json("[1,\"two\"]")).ok();
    record.input = Some(json("[1,\"two\"]"));
    (record.site, record.path) = (Some("triage.rs:7".into()), Some("shop::send".into()));
    (record.started, record.finished, record.committed) = (true, true, true);
    record.invocation = Some(named(command, 0));
    record.outcome = Some(Outcome::SideEffectCommitted);
    record.answer = Some(RecordedResult::Step(Ok(json("{\"a\\u001fb\": [1.50, \"é\"]}"))));
    record
}

/// It with another answer.
fn answered(answer: RecordedResult) -> CommandRecord {
    CommandRecord { answer: Some(answer), ..sent("3.b0.1:send") }
}

#[test]
fn what_is_opened_again_is_what_was_closed() {
    let bare = || CommandRecord::new("4:now".to_owned().into());
    let mut of_origin = sent("0:send");
    of_origin.invocation.as_mut().unwrap().key = "aether:origin:0:send:0".to_owned().into();
    let records = [
        sent("0:send"),
        sent("c2.3.b0.1:send"),
        of_origin,
        CommandRecord { invocation: Some(named("0:100%", 0)), ..sent("0:100%") },
        CommandRecord { invocation: Some(named("0:send", 7)), failed_attempts: 7, ..sent("0:send") },
        CommandRecord { invocation: None, emitted: true, kept: true, ..sent("0:send") },
        CommandRecord { site: None, path: None, class: None, ..sent("1:send") },
        CommandRecord { digest: None, input: None, outcome: None, ..sent("2:send") },
        answered(RecordedResult::Step(Err(json("{\"failed\":\"no\"}")))),
        answered(RecordedResult::Step(Ok(Payload::null()))),
        answered(RecordedResult::Random(json("4711"))),
        CommandRecord { answer: Some(RecordedResult::Time(Timestamp::MIN)), ..bare() },
        CommandRecord {
            answer: Some(RecordedResult::Time(Timestamp::from_nanosecond(1).unwrap())),
            ..bare()
        },
        CommandRecord { answer: Some(RecordedResult::Uuid(uuid::Uuid::from_u128(7))), ..bare() },
    ];
    let mut shapes = Shapes::default();
    let closed: Vec<_> = records.iter().map(|record| shapes.close(record).expect("it is closed")).collect();
    for (record, closed) in records.iter().zip(&closed) {
        assert_eq!(closed.place(), record.command.place());
        assert_eq!(shapes.open(closed), *record);
    }
}

#[test]
fn what_would_not_be_the_same_stays_open() {
    let of = |change: fn(&mut Invocation)| {
        let mut record = sent("0:send");
        change(record.invocation.as_mut().unwrap());
        record
    };
    let records = [
        CommandRecord { answer: None, ..sent("0:send") },
        CommandRecord { requested: true, ..sent("0:send") },
        answered(RecordedResult::Timer),
        answered(RecordedResult::Race("0.b1".into())),
        answered(RecordedResult::Length { events: 1, limit: 2 }),
        answered(RecordedResult::Step(Ok(json(&format!("\"{}\"", "x".repeat(LONGEST)))))),
        sent("0:send\u{1f}"),
        of(|invocation| invocation.attempt = 1),
        of(|invocation| invocation.refused = true),
        of(|invocation| invocation.decision = Some(InvocationDecision::Happened)),
        of(|invocation| invocation.finished = Some((Outcome::Success, Ok(Payload::null())))),
        CommandRecord { invocation: Some(named("0:a:b", 0)), ..sent("0:a:b") },
        of(|invocation| invocation.key = "0".to_owned().into()),
        of(|invocation| invocation.id = "0:send#1".to_owned().into()),
    ];
    let mut shapes = Shapes::default();
    for record in &records {
        let closed = shapes.close(record);
        assert!(closed.is_none(), "{closed:?} of {record:?}");
    }
}

#[test]
fn what_many_have_in_common_is_held_once() {
    let mut shapes = Shapes::default();
    for number in 0..100 {
        shapes.close(&sent(&format!("{number}:send"))).expect("it is closed");
    }
    assert_eq!(shapes.all.len(), 1);
    shapes
        .close(&CommandRecord { site: Some("triage.rs:9".into()), ..sent("100:send") })
        .expect("it is closed");
    assert_eq!(shapes.all.len(), 2);
}

#[test]
fn a_text_that_nobody_wrote_stops_whoever_asks_for_it() {
    let shapes = Shapes::default();
    for text in ["", "0:send", "0:send\u{1f}0", "0:send\u{1f}x\u{1f}\u{1f}\u{1f}1"] {
        let record = shapes.open(&Closed(text.into()));
        assert_eq!(record.answer, Some(RecordedResult::Race(String::new())), "{text:?}");
    }
}
