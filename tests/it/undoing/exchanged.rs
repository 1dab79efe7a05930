//! A step that is to be undone by another step from one build to the next.
//!
//! A build is a module with a workflow of the same name. A deploy is a journal, cut anywhere, in the hands of the other one.

use std::collections::BTreeMap;

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::store::event::Event;

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time};

/// Pay it back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn pay_back(cx: &mut StepCx, cents: u32, paid: Option<u32>) -> Result<()> {
    let _ = (cents, paid);
    Calls::note(cx)
}

/// Void the payment.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn void_payment(cx: &mut StepCx, cents: u32, paid: Option<u32>) -> Result<()> {
    let _ = (cents, paid);
    Calls::note(cx)
}

macro_rules! build {
    ($module:ident, $undo:ident) => {
        #[allow(dead_code, reason = "a build is found by its name in a journal, and not called")]
        mod $module {
            use super::*;

            /// Pay.
            #[step(effect = "tool", idempotent, on_unknown = "retry", compensate = $undo)]
            async fn pay(cx: &mut StepCx, cents: u32) -> Result<u32> {
                Calls::note(cx)?;
                Ok(cents)
            }

            /// Pay, undo that, pay again, and fail.
            #[workflow]
            pub(super) async fn exchange(cx: &mut Cx) -> Result<()> {
                pay(cx, 5).await?;
                pay(cx, 6).await?;
                let left = cx.compensate().await.len();
                pay(cx, 7).await?;
                pay(cx, 8).await?;
                Err(Failure::permanent(format!("{left} are left")))
            }
        }
    };
}

build!(with_pay_back, pay_back);
build!(with_void, void_payment);

/// A whole run of the first build, as if its module had the name of the other one's.
async fn recorded() -> Journal {
    let journal = Journal::record::<with_pay_back::exchange>("exchanged", ()).await;
    edited(&journal, |text| text.replace("::with_pay_back", "::with_void"))
}

fn edited(journal: &Journal, edit: impl Fn(&str) -> String) -> Journal {
    let edit = |event: &Event| serde_json::from_str(&edit(&serde_json::to_string(event).unwrap())).unwrap();
    Journal { run: journal.run.clone(), events: journal.events.iter().map(edit).collect() }
}

/// The other build finishes a run of which `journal` was written; the journal, and the calls that were made.
async fn finished(journal: &Journal) -> (Journal, Calls) {
    let (place, calls) = (Place::memory(), Calls::default());
    journal.plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let run = engine.find(journal.run.as_str()).await.unwrap();
    let end = in_time(run.end()).await.unwrap();
    assert!(matches!(&end, RunEnd::Failed { .. }), "{end:?}");
    engine.verify(&run.id().clone()).await.unwrap();
    engine.shutdown().await.unwrap();
    (Journal::read(&place.store, &journal.run).await, calls)
}

/// By the commands that were undone: the steps that did it.
fn undoing(journal: &Journal) -> BTreeMap<String, String> {
    let undone = journal.events.iter().filter_map(|event| match event {
        Event::StepCompensated(e) => Some((e.undoes.to_string(), e.command.name().to_owned())),
        _ => None,
    });
    undone.collect()
}

/// By the commands that can be undone: the steps that are recorded for that.
fn to_undo(journal: &Journal) -> BTreeMap<String, String> {
    let recorded = journal.events.iter().filter_map(|event| match event {
        Event::CompensationRecorded(e) => {
            Some((e.command.to_string(), e.step.rsplit("::").next().unwrap().to_owned()))
        }
        _ => None,
    });
    recorded.collect()
}

#[tokio::test]
async fn a_step_is_undone_by_the_step_that_is_recorded_with_its_outcome() {
    let whole = recorded().await;
    let mut both = 0;
    for length in 1..whole.open().events.len() {
        let begun = whole.first(length);
        let (after, calls) = finished(&begun).await;
        assert_eq!(undoing(&after), to_undo(&after), "{length}");
        let known = to_undo(&begun).len();
        assert!(calls.of("void_payment") >= 4 - known, "{length}");
        both += usize::from(calls.of("void_payment") > 0 && calls.of("pay_back") > 0);
    }
    assert!(both > 10, "{both} runs were undone by steps of both builds");
}

/// Former builds undid with the step of the day: what they have begun goes on as it was begun.
#[tokio::test]
async fn what_another_step_has_begun_to_undo_is_undone_by_that_one() {
    let whole = recorded().await;
    for undone in ["undo.1", "undo.4"] {
        let (from, to) = (format!("{undone}:pay_back"), format!("{undone}:void_payment"));
        let other = edited(&whole, |text| {
            if text.contains(&from) {
                text.replace(&from, &to)
                    .replace("::pay_back", "::void_payment")
                    .replace("\"tool\":\"pay_back\"", "\"tool\":\"void_payment\"")
            } else {
                text.to_owned()
            }
        });
        assert_ne!(other, whole, "{undone}");
        let is_begun = |event: &Event| event.command().is_some_and(|command| command.as_str().ends_with(&to));
        let begun = other.events.iter().position(is_begun).unwrap() + 1;
        for length in begun..other.open().events.len() {
            let (after, _) = finished(&other.first(length)).await;
            let place = undone.trim_start_matches("undo.");
            assert_eq!(undoing(&after)[&format!("{place}:pay")], "void_payment", "{undone} {length}");
            let (mut undone, mut recorded) = (undoing(&after), to_undo(&after));
            undone.remove(&format!("{place}:pay"));
            recorded.remove(&format!("{place}:pay"));
            assert_eq!(undone, recorded, "{length}");
        }
    }
}
