//! Confirmation: rows 22, 28 to 30, 32 and 33 of the seeds, and the start of 34.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::definition::{Declared, ErrorClass, Signature, Step, StepOptions, Workflow};
use aether::effect::{EffectClass, Payload, PayloadError};
use aether::engine::EngineBuilder;
use aether::error::{BuildError, RunError, Unconfirmed};
use aether::id::{CommandId, RunId};
use aether::people::Waiting;
use aether::prelude::*;
use aether::resource::{Inspection, Verifier};
use aether::store::Store;
use aether::store::event::{ConfirmationDecision, Event, StateChanged, StateVerdict};
use aether::store::ledger::LedgerStatus;
use aether::view::Status;

use super::histories::write_where_missing;
use super::kit::{Calls, Journal, Place, Rows, builder, failed, in_time, run_id, stores};

type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A verifier that answers as told, then that all is as it was left; and remembers what it was asked.
#[derive(Clone, Debug, Default)]
struct Witness {
    asked: Arc<Mutex<Vec<(RunId, StateChanged)>>>,
    answers: Arc<Mutex<VecDeque<Result<Inspection>>>>,
    once: bool,
}

impl Witness {
    fn told(answers: impl IntoIterator<Item = Result<Inspection>>) -> Self {
        let witness = Self::default();
        witness.answers.lock().unwrap().extend(answers);
        witness
    }

    fn asked(&self) -> Vec<StateChanged> {
        self.asked.lock().unwrap().iter().map(|(_, change)| change.clone()).collect()
    }

    /// Ids of what it was asked about.
    fn ids(&self) -> Vec<String> {
        self.asked().into_iter().map(|change| change.id).collect()
    }
}

impl Verifier for Witness {
    fn name(&self) -> &str {
        "witness"
    }

    fn look<'a>(&'a self, run: &'a RunId, change: &'a StateChanged) -> BoxFuture<'a, Result<Inspection>> {
        self.asked.lock().unwrap().push((run.clone(), change.clone()));
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or(Ok(Inspection::Unchanged));
        Box::pin(std::future::ready(answer))
    }

    fn skips_confirmed(&self) -> bool {
        self.once
    }
}

fn differs() -> Result<Inspection> {
    Ok(Inspection::Differs { expected: "v1".into(), found: "v9".into() })
}

/// Both kinds are looked at by `witness`.
fn witnessed(place: &Place, calls: &Calls, witness: &Witness) -> EngineBuilder {
    builder(&place.store, calls).verifier("file", witness.clone()).verifier("http", witness.clone())
}

/// Change two resources.
#[step(effect = "tool", changes = ["file", "http"])]
async fn change(cx: &mut StepCx, n: u32) -> Result<u32> {
    Calls::note(cx)?;
    cx.changed("file", "a", "write").version("v1").external_ref(format!("inode {n}"));
    cx.changed("http", &format!("b{n}"), "put").etag("\"x\"");
    cx.changed("parcel", "c", "send");
    Ok(n)
}

/// Change one of them again.
#[step(effect = "external", changes = ["file"])]
async fn change_again(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    cx.changed("file", "a", "append").version("v2");
    Ok(2)
}

/// Change two resources, then wait.
#[workflow]
async fn seed_changes(cx: &mut Cx) -> Result<u32> {
    let changed = change(cx, 1).await?;
    let more: u32 = cx.signal("go").await?;
    Ok(changed + more)
}

/// Two steps change one resource.
#[workflow]
async fn seed_twice(cx: &mut Cx) -> Result<u32> {
    Ok(change(cx, 1).await? + change_again(cx).await?)
}

/// A run of [`seed_changes`] as far as it comes by itself.
async fn recorded() -> Journal {
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    engine.start::<seed_changes>(()).id("changes").await.unwrap();
    until(&place.store, "changes", |journal| journal.kinds().contains(&"wait_started".into())).await
}

/// The journal of `run`, once it is as `wanted`.
async fn until(store: &Arc<dyn Store>, run: &str, wanted: impl Fn(&Journal) -> bool) -> Journal {
    in_time(async {
        loop {
            let journal = Journal::read(store, run).await;
            if wanted(&journal) {
                return journal;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Lets a planted or left run of `W` end.
async fn finish<W: Workflow>(
    engine: &Engine,
    run: &str,
) -> std::result::Result<W::Output, RunError<W::Error>> {
    let handle = engine.handle::<W>(run).await.unwrap();
    engine.signal(&run_id(run), "go", "1", &10).await.unwrap();
    in_time(handle.result()).await
}

fn verdicts(journal: &Journal) -> Vec<StateVerdict> {
    let verdict = |event: &Event| match event {
        Event::StateConfirmed(e) => Some(e.verdict),
        _ => None,
    };
    journal.events.iter().filter_map(verdict).collect()
}

fn changes(journal: &Journal) -> Vec<StateChanged> {
    let changed = |event: &Event| match event {
        Event::StateChanged(e) => Some(e.clone()),
        _ => None,
    };
    journal.events.iter().filter_map(changed).collect()
}

pub(super) fn about(failure: &Failure) -> &Unconfirmed {
    failure.unconfirmed().unwrap_or_else(|| panic!("nothing of a resource in: {failure}"))
}

#[tokio::test]
async fn s028_the_verifier_gets_all_there_is_to_know_before_anything_is_injected() {
    let journal = recorded().await;
    for place in stores() {
        let (place, calls, witness) = (place(), Calls::default(), Witness::default());
        journal.plant(&place.store, Rows::Follow).await;
        let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
        assert_eq!(finish::<seed_changes>(&engine, "changes").await.unwrap(), 11);
        assert_eq!(calls.all(), 0);
        let declared: Vec<_> = changes(&journal).into_iter().filter(|c| c.resource != "parcel").collect();
        assert_eq!(witness.asked(), declared);
        let asked = witness.asked.lock().unwrap()[0].clone();
        assert_eq!((asked.0, asked.1.command.name()), (run_id("changes"), "change"));
        let told = [asked.1.resource, asked.1.id, asked.1.operation].map(Some);
        assert_eq!(told, ["file", "a", "write"].map(|text| Some(text.to_owned())));
        assert_eq!((asked.1.version, asked.1.etag), (Some("v1".into()), None));
        assert_eq!(asked.1.external_ref.as_deref(), Some("inode 1"));
        let after = Journal::read(&place.store, "changes").await;
        assert_eq!(verdicts(&after), [StateVerdict::Matches; 2]);
        let at = |kind: &str| after.kinds().iter().position(|known| known == kind).unwrap();
        assert!(at("state_confirmed") < at("signal_received"), "{:?}", after.kinds());
        engine.verify(&run_id("changes")).await.unwrap();
        assert_eq!(witness.asked().len(), 2, "a verification looks at nothing");
    }
}

#[tokio::test]
async fn s028_only_the_newest_state_of_the_run_is_looked_at_and_never_on_the_first_run() {
    for place in stores() {
        let (place, calls, witness) = (place(), Calls::default(), Witness::default());
        let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
        let run = engine.start::<seed_twice>(()).id("twice").await.unwrap();
        in_time(run.result()).await.unwrap();
        assert_eq!((witness.asked().len(), calls.all()), (0, 2));
        let journal = Journal::read(&place.store, "twice").await.open();
        let (place, calls) = (Place::memory(), Calls::default());
        journal.plant(&place.store, Rows::Follow).await;
        let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
        assert_eq!(in_time(engine.handle::<seed_twice>("twice").await.unwrap().result()).await.unwrap(), 3);
        assert_eq!(witness.ids(), ["b1", "a"]);
        assert_eq!(witness.asked()[1].version.as_deref(), Some("v2"));
        assert_eq!(calls.all(), 0);
    }
}

#[tokio::test]
async fn s029_one_mismatch_fails_the_run_for_good_and_injects_nothing() {
    let journal = recorded().await;
    for place in stores() {
        for rows in [Rows::Follow, Rows::Absent] {
            let (place, calls, witness) =
                (place(), Calls::default(), Witness::told([Ok(Inspection::Unchanged), differs()]));
            journal.plant(&place.store, rows).await;
            let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
            let failure = failed(finish::<seed_changes>(&engine, "changes").await);
            let Unconfirmed { command, resource, id, expected, found } = about(&failure).clone();
            assert_eq!((command.name(), resource.as_str(), id.as_str()), ("change", "http", "b1"));
            assert_eq!((expected.as_str(), found.as_str()), ("v1", "v9"));
            for part in ["http", "`b1`", "v1", "v9", "changes"] {
                assert!(failure.to_string().contains(part), "{part} is not in: {failure}");
            }
            let after = Journal::read(&place.store, "changes").await;
            assert_eq!(
                (calls.all(), verdicts(&after)),
                (0, vec![StateVerdict::Matches, StateVerdict::Differs])
            );
            assert!(!after.kinds().contains(&"signal_received".into()), "{:?}", after.kinds());
            let record = place.store.run(&run_id("changes")).await.unwrap().unwrap();
            assert_eq!(record.status, Status::Failed);
            for row in engine.ledger(&run_id("changes")).await.unwrap() {
                assert_eq!(row.status, LedgerStatus::Succeeded, "not confirmed");
            }
            engine.verify(&run_id("changes")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn s030_an_error_of_the_verifier_is_retried_within_bounds_then_the_run_fails_for_good() {
    let journal = recorded().await;
    let error = || Err(Failure::retryable("the server is down"));
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        journal.plant(&place.store, Rows::Follow).await;
        let witness = Witness::told([error(), error(), error(), error()]);
        let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
        let failure = failed(finish::<seed_changes>(&engine, "changes").await);
        assert!(about(&failure).found.contains("the server is down"), "{failure}");
        assert_eq!((witness.ids(), calls.all()), (vec!["a".to_owned(); 4], 0));
        let after = Journal::read(&place.store, "changes").await;
        assert_eq!(verdicts(&after), [StateVerdict::Unverifiable]);
    }
    let (place, calls, witness) = (Place::memory(), Calls::default(), Witness::told([error(), error()]));
    journal.plant(&place.store, Rows::Follow).await;
    let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
    assert_eq!(finish::<seed_changes>(&engine, "changes").await.unwrap(), 11);
    assert_eq!(witness.ids(), ["a", "a", "a", "b1"]);
}

/// A verifier that panics.
#[derive(Debug)]
struct Broken;

impl Verifier for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn look<'a>(&'a self, _: &'a RunId, _: &'a StateChanged) -> BoxFuture<'a, Result<Inspection>> {
        panic!("no glasses")
    }
}

#[tokio::test]
async fn s030_a_verifier_that_panics_fails_the_run_and_not_the_program() {
    let (place, calls) = (Place::memory(), Calls::default());
    recorded().await.plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &calls).verifier("file", Broken).start().await.unwrap();
    let failure = failed(finish::<seed_changes>(&engine, "changes").await);
    assert!(failure.to_string().contains("no glasses"), "{failure}");
    assert_eq!(calls.all(), 0);
}

#[tokio::test]
async fn s032_the_same_holds_where_the_outcome_comes_from_the_ledger() {
    // The changes are in the journal, the outcome stands in the ledger alone.
    let whole = recorded().await;
    let cut = whole.through("state_changed", "change");
    let cut = whole.first(cut.events.len() + 2);
    assert_eq!(cut.kinds().last().unwrap(), "state_changed");
    for place in stores() {
        for fails in [false, true] {
            let (place, calls) = (place(), Calls::default());
            let witness = Witness::told(if fails { vec![differs()] } else { Vec::new() });
            let mut hand = cut.hold(&place.store, Rows::Follow).await;
            let finished = whole.of("change").into_iter().find(|e| e.kind() == "tool_invocation_finished");
            let update = whole.row_update(&finished.unwrap()).unwrap();
            hand.append(&[], None, vec![update]).await;
            hand.let_go().await;
            let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
            let result = finish::<seed_changes>(&engine, "changes").await;
            let after = Journal::read(&place.store, "changes").await;
            assert_eq!(calls.all(), 0);
            if fails {
                assert_eq!(about(&failed(result)).id, "a");
                assert_eq!(witness.ids(), ["a"]);
                assert_eq!(after.count("command_committed", "change"), 0, "nothing was injected");
            } else {
                assert_eq!(result.unwrap(), 11);
                assert_eq!(witness.ids(), ["a", "b1"]);
                let rows = engine.ledger(&run_id("changes")).await.unwrap();
                assert_eq!(rows[0].status, LedgerStatus::Confirmed);
                assert_eq!(rows[0].result, Some(Payload::encode(&1).unwrap()));
            }
        }
    }
}

#[tokio::test]
async fn s033_a_state_change_keeps_version_tag_and_reference_in_order() {
    let journal = recorded().await;
    let found: Vec<_> = changes(&journal)
        .into_iter()
        .map(|c| (c.resource, c.id, c.operation, c.version, c.etag, c.external_ref))
        .collect();
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        ("file".into(), "a".into(), "write".into(), some("v1"), None, some("inode 1")),
        ("http".into(), "b1".into(), "put".into(), None, some("\"x\""), None),
        ("parcel".into(), "c".into(), "send".into(), None, None, None),
    ];
    assert_eq!(found, expected);
    for place in stores() {
        let (place, witness) = (place(), Witness::default());
        journal.plant(&place.store, Rows::Follow).await;
        let engine = witnessed(&place, &Calls::default(), &witness).start().await.unwrap();
        finish::<seed_changes>(&engine, "changes").await.unwrap();
        let view = engine.view(&run_id("changes")).await.unwrap();
        let step = view.steps.iter().find(|step| step.command.name() == "change").unwrap();
        assert_eq!(step.changes, changes(&journal));
        assert_eq!(step.confirmations.len(), 2, "an undeclared kind is recorded and not looked at");
    }
}

/// A step of a kind that no verifier knows, implemented by hand.
struct Courier;

impl Signature for Courier {
    type Returned = Result<()>;
}

impl Step for Courier {
    const DECLARED: Declared<Result<()>> = Declared {
        name: "courier",
        path: "post::courier",
        function: "",
        fingerprint: "",
        doc: "",
        file: "post.rs",
        line: 7,
        class: EffectClass::Tool,
        classify: |_| ErrorClass {
            class: aether::error::FailureClass::Permanent,
            retry_after: None,
            lost: false,
        },
    };
    const OPTIONS: StepOptions = StepOptions { changes: &["parcel"], ..StepOptions::of(EffectClass::Tool) };
    type Args = ();

    fn encode(_: &()) -> std::result::Result<Payload, PayloadError> {
        Payload::encode(&serde_json::json!({}))
    }

    fn decode(_: &Payload) -> std::result::Result<(), PayloadError> {
        Ok(())
    }

    fn call(_: StepCx, (): ()) -> aether::__private::BoxFuture<'static, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn s034_a_declared_kind_without_a_verifier_fails_the_start_with_its_name() {
    let refused = Engine::builder().memory().register_step::<Courier>().start().await.unwrap_err();
    let step = "post::courier";
    let place = "post.rs:7".to_owned();
    assert_eq!(refused, BuildError::NoVerifier { step, place, kind: "parcel" });
    let text = refused.to_string();
    assert!(text.contains(".verifier(\"parcel\", ..)") && text.contains("post.rs:7"), "{text}");
    let engine = Engine::builder().memory().register_step::<Courier>().verifier("parcel", Witness::default());
    engine.start().await.unwrap();
}

#[tokio::test]
async fn s022_what_was_confirmed_is_not_looked_at_again_where_the_verifier_says_so() {
    let journal = recorded().await;
    for place in stores() {
        for once in [true, false] {
            let (place, calls) = (place(), Calls::default());
            let witness = Witness { once, ..Witness::default() };
            journal.plant(&place.store, Rows::Follow).await;
            for recovery in 1..=3 {
                let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
                let requeued =
                    |journal: &Journal| journal.kinds().iter().filter(|k| *k == "run_requeued").count();
                until(&place.store, "changes", |journal| requeued(journal) == recovery).await;
                let looks = if once { 2 } else { 2 * recovery };
                in_time(async {
                    while engine.ledger(&run_id("changes")).await.unwrap()[0].status
                        != LedgerStatus::Confirmed
                        || witness.asked().len() < looks
                    {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                })
                .await;
                engine.shutdown().await.unwrap();
            }
            let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
            assert_eq!(finish::<seed_changes>(&engine, "changes").await.unwrap(), 11);
            assert_eq!((witness.asked().len(), calls.all()), (if once { 2 } else { 8 }, 0));
        }
    }
}

/// The second branch wins; the first one has changed something, too.
#[workflow]
async fn seed_raced(cx: &mut Cx) -> Result<u32> {
    let won = cx
        .race((
            async |cx: &mut Cx| -> Result<u32> {
                change(cx, 1).await?;
                cx.sleep(Duration::from_secs(3600)).await;
                Ok(1)
            },
            async |cx: &mut Cx| -> Result<u32> {
                cx.sleep(Duration::from_millis(20)).await;
                Ok(change(cx, 2).await?)
            },
        ))
        .await?;
    Ok(won)
}

#[tokio::test]
async fn nobody_looks_at_what_the_loser_of_a_race_changed() {
    let journal = Journal::record::<seed_raced>("raced", ()).await.open();
    assert_eq!(changes(&journal).len(), 6, "both branches came that far");
    for place in stores() {
        let (place, calls, witness) = (place(), Calls::default(), Witness::default());
        journal.plant(&place.store, Rows::Follow).await;
        let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
        assert_eq!(in_time(engine.handle::<seed_raced>("raced").await.unwrap().result()).await.unwrap(), 2);
        assert_eq!((witness.ids(), calls.all()), (vec!["a".to_owned(), "b2".to_owned()], 0));
    }
}

/// Change something that need not stay.
#[step(effect = "tool", changes = ["file"], confirm = "warn")]
async fn change_lightly(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    cx.changed("file", "a", "write").version("v1");
    Ok(1)
}

/// Change something about which a person decides.
#[step(effect = "tool", changes = ["file"], confirm = "ask")]
async fn change_with_care(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    cx.changed("file", "a", "write").version("v1");
    Ok(1)
}

/// A change that need not stay.
#[workflow]
async fn seed_warned(cx: &mut Cx) -> Result<u32> {
    Ok(change_lightly(cx).await?)
}

/// A change about which a person decides.
#[workflow]
async fn seed_asked(cx: &mut Cx) -> Result<u32> {
    let first = change_with_care(cx).await?;
    let now = cx.now().await;
    Ok(first + u32::from(now.as_second() > 0))
}

#[tokio::test]
async fn a_mismatch_may_be_no_more_than_a_warning() {
    let journal = Journal::record::<seed_warned>("warned", ()).await.open();
    for place in stores() {
        let (place, calls, witness) = (place(), Calls::default(), Witness::told([differs()]));
        journal.plant(&place.store, Rows::Follow).await;
        let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
        assert_eq!(in_time(engine.handle::<seed_warned>("warned").await.unwrap().result()).await.unwrap(), 1);
        let after = Journal::read(&place.store, "warned").await;
        assert_eq!((verdicts(&after), calls.all()), (vec![StateVerdict::Differs], 0));
        let rows = engine.ledger(&run_id("warned")).await.unwrap();
        assert_eq!(rows[0].status, LedgerStatus::Succeeded);
    }
}

#[tokio::test]
async fn an_operator_decides_about_a_mismatch_and_is_recorded() {
    let journal = Journal::record::<seed_asked>("asked", ()).await.open();
    write_where_missing("confirmation", "asked", &asked_history(&journal).await).await;
    for place in stores() {
        for decision in [ConfirmationDecision::Accept, ConfirmationDecision::Fail] {
            let (place, calls, witness) = (place(), Calls::default(), Witness::told([differs(), differs()]));
            journal.plant(&place.store, Rows::Follow).await;
            let engine =
                witnessed(&place, &calls, &witness).eviction_grace(Duration::ZERO).start().await.unwrap();
            // It waits in the store, although its history was not handed out.
            let asked = until(&place.store, "asked", |j| j.kinds().last().unwrap() == "run_waiting").await;
            assert_eq!(verdicts(&asked), [StateVerdict::Differs]);
            let command = CommandId::new("0", "change_with_care");
            let open = engine.pending(&run_id("asked")).await.unwrap();
            let told: Vec<_> = open.iter().map(|open| (open.waiting, open.command.clone())).collect();
            assert_eq!(told, [(Waiting::Confirmation, command.clone())]);
            assert!(open[0].question.as_ref().unwrap().as_str().contains("v9"), "{open:?}");
            engine.confirm(&run_id("asked"), &command, "file", "a", decision, "ann").await.unwrap();
            let result = in_time(engine.handle::<seed_asked>("asked").await.unwrap().result()).await;
            match decision {
                ConfirmationDecision::Accept => assert_eq!(result.unwrap(), 2),
                ConfirmationDecision::Fail => assert!(failed(result).to_string().contains("ann"), "her name"),
            }
            let after = Journal::read(&place.store, "asked").await;
            let decided = after.of("change_with_care").into_iter().find_map(|event| match event {
                Event::ConfirmationDecided(e) => Some((e.decision, e.actor)),
                _ => None,
            });
            assert_eq!(decided, Some((decision, "ann".into())));
            assert!(engine.pending(&run_id("asked")).await.unwrap().is_empty());
            assert_eq!((calls.all(), verdicts(&after)), (0, vec![StateVerdict::Differs]));
            engine.verify(&run_id("asked")).await.unwrap();
        }
    }
}

/// A store in which an operator accepted a mismatch.
async fn asked_history(journal: &Journal) -> Place {
    let (place, witness) = (Place::memory(), Witness::told([differs()]));
    journal.plant(&place.store, Rows::Follow).await;
    let engine = witnessed(&place, &Calls::default(), &witness).start().await.unwrap();
    let (run, command) = (run_id("asked"), CommandId::new("0", "change_with_care"));
    until(&place.store, "asked", |journal| !verdicts(journal).is_empty()).await;
    engine.confirm(&run, &command, "file", "a", ConfirmationDecision::Accept, "ann").await.unwrap();
    in_time(engine.handle::<seed_asked>("asked").await.unwrap().result()).await.unwrap();
    place
}

#[tokio::test]
async fn an_accepted_state_is_not_asked_about_again() {
    let journal = Journal::record::<seed_asked>("asked", ()).await.open();
    let place = asked_history(&journal).await;
    let accepted = Journal::read(&place.store, "asked").await.open();
    for place in stores() {
        let (place, calls, witness) = (place(), Calls::default(), Witness::told([differs()]));
        accepted.plant(&place.store, Rows::Follow).await;
        let engine = witnessed(&place, &calls, &witness).start().await.unwrap();
        assert_eq!(in_time(engine.handle::<seed_asked>("asked").await.unwrap().result()).await.unwrap(), 2);
        assert_eq!((witness.asked().len(), calls.all()), (0, 0));
    }
}
