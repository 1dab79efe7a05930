//! Steps and workflows of one name: what is recorded of one of them, and what a person agreed to, is not the other's.
//!
//! A build is a module with workflows of the same names. A deploy is a journal, cut somewhere, in the hands of the other one.

use std::time::Duration;

use aether::definition::Workflow;
use aether::engine::RunEnd;
use aether::people::Waiting;
use aether::prelude::*;
use aether::store::event::Event;

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time};

macro_rules! build {
    ($module:ident, $channel:ident, $sent:literal) => {
        #[allow(dead_code, reason = "a child run is named by its type, and not called")]
        mod $channel {
            use super::*;

            /// Send a message.
            #[step(effect = "tool", approval = "required", idempotent, on_unknown = "retry")]
            pub(super) async fn send(cx: &mut StepCx, text: &str) -> Result<String> {
                cx.dep::<Calls>()?.add($sent, text);
                Ok($sent.to_owned())
            }

            /// Look whether there is an answer.
            #[step(effect = "read", approval = "required")]
            pub(super) async fn look(cx: &mut StepCx, text: &str) -> Result<String> {
                cx.dep::<Calls>()?.add($sent, text);
                Ok($sent.to_owned())
            }

            /// Send a message, as a run of its own.
            #[workflow]
            pub(super) async fn sending(cx: &mut Cx, text: String) -> Result<String> {
                cx.sleep(Duration::from_millis(text.len() as u64)).await;
                Ok($sent.to_owned())
            }
        }

        #[allow(dead_code, reason = "a build is found by its name in a journal, and not called")]
        mod $module {
            use super::*;

            #[workflow]
            pub(super) async fn tell(cx: &mut Cx, text: String) -> Result<String> {
                Ok($channel::send(cx, &text).await?)
            }

            #[workflow]
            pub(super) async fn inquire(cx: &mut Cx, text: String) -> Result<String> {
                Ok($channel::look(cx, &text).await?)
            }

            #[workflow]
            pub(super) async fn have_told(cx: &mut Cx, text: String) -> Result<String> {
                Ok(cx.child::<$channel::sending>(text).await?)
            }
        }
    };
}

build!(mailing, mail, "mailed");
build!(texting, sms, "texted");

/// Agrees to everything that is asked, until the run stands still.
pub(crate) async fn end(engine: &Engine, run: &str) -> RunEnd {
    let handle = engine.find(run).await.unwrap();
    let agreeing = async {
        loop {
            // From the journal: a run that was planted is in no list.
            for wait in engine.pending(handle.id()).await.unwrap() {
                let _decided_before = match wait.waiting {
                    Waiting::Approval => engine.approve(&wait.run, &wait, "ann").await,
                    Waiting::Question => engine.answer(&wait.run, &wait, &3_u32, "ann").await,
                    _ => continue,
                };
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        end = in_time(handle.end()) => end.unwrap(),
        () = agreeing => unreachable!(),
    }
}

/// A whole run of the first build.
async fn recorded<W: Workflow<Input = String>>() -> Journal {
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    engine.start::<W>("hello".to_owned()).id("told").await.unwrap();
    assert!(matches!(end(&engine, "told").await, RunEnd::Completed(_)));
    engine.shutdown().await.unwrap();
    Journal::read(&place.store, "told").await
}

/// The second build takes the run up, and a person agrees to what it asks.
async fn taken_up(journal: &Journal) -> (RunEnd, Calls) {
    let (place, calls) = (Place::memory(), Calls::default());
    let journal = journal.in_module(&format!("{}::texting", module_path!()));
    journal.plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let checked = engine.check(aether::store::RunFilter::new()).await.unwrap();
    let end = end(&engine, &journal.run).await;
    let parks = checked.runs.iter().all(|run| run.verdict.to_string() == "parks");
    assert_eq!(parks, matches!(end, RunEnd::Stopped(_)), "{checked}");
    engine.shutdown().await.unwrap();
    (end, calls)
}

/// The journal as if `mail` had another name since.
fn moved(journal: &Journal) -> Journal {
    let moved = |event: &Event| {
        let text = serde_json::to_string(event).unwrap();
        serde_json::from_str(&text.replace("::mail::", "::post::")).unwrap()
    };
    Journal { run: journal.run.clone(), events: journal.events.iter().map(moved).collect() }
}

/// It is the other one's as long as that one is there; else the name counts.
async fn is_not_taken_over(journal: &Journal) {
    let (end, calls) = taken_up(journal).await;
    assert!(matches!(end, RunEnd::Stopped(_)), "{end:?}");
    assert_eq!(calls.all(), 0);
    assert!(matches!(taken_up(&moved(journal)).await.0, RunEnd::Completed(_)));
}

#[tokio::test]
async fn consent_to_one_step_is_none_to_another_of_its_name() {
    let told = recorded::<mailing::tell>().await;
    is_not_taken_over(&told.through("approval_requested", "send")).await;
    is_not_taken_over(&told.through("approval_decided", "send")).await;
    let looked = recorded::<mailing::inquire>().await;
    is_not_taken_over(&looked.through("approval_requested", "look")).await;
    is_not_taken_over(&looked.through("approval_decided", "look")).await;
}

#[tokio::test]
async fn an_intent_and_an_outcome_stay_with_their_step() {
    let told = recorded::<mailing::tell>().await;
    is_not_taken_over(&told.through("tool_invocation_started", "send")).await;
    is_not_taken_over(&told.open()).await;
}

#[tokio::test]
async fn a_child_run_stays_one_of_its_workflow() {
    let told = recorded::<mailing::have_told>().await;
    is_not_taken_over(&told.through("child_started", "sending")).await;
    is_not_taken_over(&told.open()).await;
}

/// Former builds did not record which workflow a child runs.
#[tokio::test]
async fn an_older_journal_does_not_say_which_it_was() {
    let told = recorded::<mailing::have_told>().await;
    let mut begun = told.through("child_started", "sending");
    for event in &mut begun.events {
        if let Event::NodeStarted(started) = event {
            started.path = None;
        }
    }
    let (end, _) = taken_up(&begun).await;
    assert!(matches!(&end, RunEnd::Completed(value) if value.as_str() == "\"texted\""), "{end:?}");
}
