//! What the engine says of marks: who needs which version, what a build that lacks it does, and marks in simulations.

use aether::engine::{ChangeAdvice, ChangeReport, Fit, RunEnd};
use aether::error::Fault;
use aether::prelude::*;
use aether_testing::Sim;

use super::builds;
use super::deploys::{moved, resume, whole};
use crate::seeds::kit::{Calls, Hand, Journal, Place, Rows, builder};

async fn report(engine: &Engine, name: &str) -> ChangeReport {
    engine.changes().await.unwrap().into_iter().find(|change| change.name == name).unwrap()
}

/// A run of which the first `events` are written and that another process holds.
async fn held(place: &Place, journal: &Journal, name: &str, events: usize) -> Hand {
    moved(&journal.renamed(name).first(events), "added").hold(&place.store, Rows::Follow).await
}

#[tokio::test]
async fn it_is_told_who_needs_the_old_path_and_when_nobody_does() {
    let (plain, added) = (whole("plain", "shop").await, whole("added", "shop").await);
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let nobody = report(&engine, "use-baz").await;
    assert_eq!((nobody.advice.clone(), nobody.versions.len()), (ChangeAdvice::Raise { to: 2 }, 0));
    assert_eq!(
        nobody.to_string(),
        "`use-baz` (1..=2): no open run needs a version below 2: safe to raise the lower end to 2"
    );
    // One run has passed the mark before it was there, one is not there yet, one has come by it since, and two have ended.
    let _old = held(&place, &plain, "old", 40).await;
    let _young = held(&place, &plain, "young", 2).await;
    let _new = held(&place, &added, "new", 40).await;
    for (journal, name) in [(&plain, "old end"), (&added, "new end")] {
        moved(&journal.renamed(name), "added").hold(&place.store, Rows::Follow).await;
    }
    let told = report(&engine, "use-baz").await;
    let used: Vec<_> = told
        .versions
        .iter()
        .map(|used| (used.version, used.unmarked, used.open.count, used.ended.count))
        .collect();
    assert_eq!(used, [(1, true, 1, 1), (2, false, 1, 1)]);
    assert_eq!((told.advice.clone(), told.unclear.count), (ChangeAdvice::Needed, 0));
    assert_eq!(told.to_string(), "`use-baz` (1..=2): version 1 is needed by 1 open run (old)");
    assert_eq!(told.versions[1].ended.ids[0].as_str(), "new end");
    assert!(told.places.iter().any(|place| place.workflow == "inner" && place.file.ends_with("builds.rs")));
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_version_without_a_path_stops_the_run_and_the_former_build_resumes_it() {
    let plain = whole("plain", "shop").await;
    let resumed = resume(&plain.first(40), "added").await;
    // It was recorded when the run came to something new.
    let at = resumed.journal.events.iter().position(|event| event.kind() == "version_marked").unwrap();
    let stopped = resume(&resumed.journal.first(at + 3), "raised").await;
    let RunEnd::Stopped(fault) = &stopped.end else { panic!("{:?}", stopped.end) };
    assert!(matches!(fault, Fault::MarkOutOfRange { recorded: 1, from: 2, to: 2, .. }), "{fault:?}");
    assert_eq!(
        fault.to_string(),
        "run `shop`: mark `use-baz` has version 1, and this code knows versions 2 to 2: a build whose range has 1 resumes \
         the run; nothing of it was lost"
    );
    assert!(!fault.is_transient());
    assert!(matches!(resume(&stopped.journal, "two").await.end, RunEnd::Completed(_)));
}

#[tokio::test]
async fn a_verification_stands_at_a_mark_that_the_run_comes_to_first() {
    let plain = whole("plain", "shop").await;
    let place = Place::memory();
    let first = plain.events.iter().position(|event| event.kind() == "step_committed").unwrap();
    let _young = held(&place, &plain, "young", first + 1).await;
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let verified = engine.verify(&"young".parse().unwrap()).await.unwrap();
    let Fit::SoFar { at: Some(at) } = verified.fit else { panic!("{verified:?}") };
    assert_eq!(at.command.as_str(), "v:use-baz");
    assert!(at.site.is_some());
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_simulation_takes_the_new_path_unless_the_test_asks_for_the_old_one() {
    let sim = || Sim::new::<builds::added::inner>().stub::<builds::say>(Ok);
    assert_eq!(sim().run(()).await.assert_completed(), &["in", "baz"]);
    let old = sim().mark("use-baz", 1);
    assert_eq!(old.run(()).await.assert_completed(), &["in", "foo"]);
    old.crash_at_every_append(()).await;
}

/// A simulation that is answered by a recording takes the path that the recorded run took.
#[tokio::test]
async fn a_recording_has_the_versions_that_its_run_had() {
    let journal = whole("plain", "shop").await;
    let (place, calls) = (Place::memory(), Calls::default());
    moved(&journal, "added").hold(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let recording = engine.export(&"shop".parse().unwrap()).await.unwrap();
    let report = Sim::new::<builds::added::shop>().recorded(&recording).unwrap().run(()).await;
    assert!(report.assert_completed().iter().all(|word| word != "baz" && word != "tail"));
    engine.shutdown().await.unwrap();
}

#[test]
fn marks_stand_in_the_definition() {
    use aether::definition::Workflow;
    let def = builds::added::shop::DEF;
    let marks: Vec<_> = def.changes.iter().map(|mark| (mark.name, mark.from, mark.to, mark.each)).collect();
    assert_eq!(marks, [("use-baz", 1, 2, false), ("tail", 1, 2, false)]);
    assert_eq!(def.json()["changes"][0]["name"], "use-baz");
}
