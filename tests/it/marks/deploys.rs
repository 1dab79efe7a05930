//! Marks: code is changed at every position of a run, in one deploy after the other, and no run is lost or repeated.
//!
//! A build is a module with a workflow of the same name. A deploy is a journal, cut anywhere, in the hands of another build.

use std::collections::BTreeSet;

use aether::engine::{ChangeAdvice, ChangeReport, RunEnd};
use aether::error::Fault;
use aether::store::event::{Event, VersionMarked};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::builds;
use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, created, in_time};

/// The builds, in the order of their deploys.
const BUILDS: [&str; 6] = ["plain", "added", "two", "raised", "dropped", "bare"];

/// The module of a build.
fn module(build: &str) -> String {
    format!("{}::{build}", builds::MODULE)
}

/// The journal as if the run had been created by `build`.
pub(super) fn moved(journal: &Journal, build: &str) -> Journal {
    journal.in_module(&module(build))
}

/// The versions that a journal holds, by name.
pub(super) fn marked(journal: &Journal) -> BTreeSet<(String, u32)> {
    let mark = |event: &Event| match event {
        Event::VersionMarked(VersionMarked { change, version, .. }) => Some((change.clone(), *version)),
        _ => None,
    };
    journal.events.iter().filter_map(mark).collect()
}

/// Commands whose outcome is in the journal.
pub(super) fn committed(journal: &Journal) -> Vec<String> {
    let commit = |event: &Event| match event {
        Event::CommandCommitted(e) => Some(e.command.as_str().to_owned()),
        _ => None,
    };
    journal.events.iter().filter_map(commit).collect()
}

/// The words of a run that has ended.
pub(super) fn words(end: &RunEnd) -> Vec<String> {
    match end {
        RunEnd::Completed(value) => value.decode().unwrap(),
        end => panic!("{end:?}"),
    }
}

/// What became of a run that a build resumed.
pub(super) struct Resumed {
    pub(super) journal: Journal,
    pub(super) end: RunEnd,
}

/// `build` resumes a run of which `journal` was written. Nothing that it holds is done again.
pub(super) async fn resume(journal: &Journal, build: &str) -> Resumed {
    let (place, calls) = (Place::memory(), Calls::default());
    let planted = moved(journal, build);
    planted.plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &calls).start().await.unwrap();
    let run = engine.find(journal.run.as_str()).await.unwrap();
    let end = in_time(run.end()).await.unwrap();
    let after = Journal::read(&place.store, &journal.run).await;
    for known in committed(journal) {
        assert_eq!(calls.of(&known), 0, "{build} called {known} again");
    }
    let commits = committed(&after);
    assert_eq!(commits.len(), commits.iter().collect::<BTreeSet<_>>().len());
    assert!(commits.iter().all(|command| calls.of(command) <= 1), "a body was called twice");
    assert!(after.events.starts_with(&planted.events), "an event was changed");
    if !matches!(end, RunEnd::Stopped(_)) {
        engine.verify(&run.id().clone()).await.unwrap();
        let versions = marked(&after);
        let names: BTreeSet<_> = versions.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), versions.len(), "a name has two versions: {versions:?}");
    }
    engine.shutdown().await.unwrap();
    Resumed { journal: after, end }
}

/// A run under one build, from its start to its end.
pub(super) async fn whole(build: &str, workflow: &str) -> Journal {
    let begun = Journal { run: workflow.into(), events: vec![created(workflow, "{}")] };
    let resumed = resume(&begun, build).await;
    words(&resumed.end);
    resumed.journal
}

#[tokio::test]
async fn a_new_run_takes_the_new_paths() {
    let says = async |build| {
        let journal = whole(build, "shop").await;
        let said = words(&RunEnd::of(journal.events.last().unwrap()).unwrap());
        (said.iter().filter(|word| *word == "foo").count(), said.iter().filter(|word| *word == "baz").count())
    };
    assert_eq!(says("plain").await, (10, 0));
    for build in &BUILDS[1..] {
        assert_eq!(says(build).await, (0, 10), "{build}");
    }
}

/// A mark costs one event a run, and no id of another command.
#[tokio::test]
async fn a_mark_shifts_nothing_and_is_recorded_once() {
    let (plain, added) = (whole("plain", "shop").await, whole("added", "shop").await);
    let of = |journal: &Journal, name: &str| marked(journal).iter().filter(|(mark, _)| mark == name).count();
    assert_eq!((of(&plain, "use-baz"), of(&added, "use-baz"), of(&added, "tail")), (0, 1, 1));
    let marks = |event: &&Event| matches!(event, Event::VersionMarked(_));
    assert_eq!(added.events.iter().filter(marks).count(), 2);
    let mark = added.events.iter().find(marks).and_then(Event::command).unwrap();
    assert_eq!(mark.as_str(), "v:use-baz");
    let places = |journal: &Journal| -> BTreeSet<String> {
        let place = |command: &String| command.split(':').next().unwrap().to_owned();
        committed(journal).iter().map(place).collect()
    };
    assert!(places(&plain).is_subset(&places(&added)));
}

#[tokio::test]
async fn a_mark_is_added_at_every_position() {
    let plain = whole("plain", "shop").await;
    for position in 1..plain.events.len() {
        let said = added_at(&plain, position).await;
        // Whether the run has been at the first place, and whether it was nowhere near it.
        let passed = committed(&plain.first(position)).iter().any(|command| command == "1:say");
        assert!(!passed || said.contains(&"foo".to_owned()), "{position}");
        assert!(position > 4 || said.contains(&"baz".to_owned()), "{position}: {said:?}");
    }
}

/// One branch has passed the place and others have not, in every combination that a run comes by.
#[tokio::test]
async fn branches_agree_on_a_version_whoever_has_passed_the_mark() {
    let mut both = BTreeSet::new();
    let plain = whole("plain", "crowd").await;
    for position in 1..plain.events.len() {
        let said = added_at(&plain, position).await;
        both.insert(said.contains(&"foo".to_owned()));
    }
    assert_eq!(both.len(), 2);
}

/// Adds the marks to a run that died behind `position`, and lets it die again here and there. Returns its words.
async fn added_at(plain: &Journal, position: usize) -> Vec<String> {
    let resumed = resume(&plain.first(position), "added").await;
    let said = words(&resumed.end);
    let (older, newer) = (said.contains(&"foo".to_owned()), said.contains(&"baz".to_owned()));
    assert!(older != newer, "{position}: {said:?}");
    // What was decided once stays, wherever the next crash is.
    let known = marked(&resumed.journal);
    let length = resumed.journal.events.len();
    for later in (position..length).filter(|later| later == &position || later % 67 == 0) {
        let again = resume(&resumed.journal.first(later), "added").await;
        assert_eq!(words(&again.end).contains(&"foo".to_owned()), older, "{position}, {later}");
        let names = |marks: &BTreeSet<(String, u32)>| {
            marks.iter().filter(|mark| mark.0 == "use-baz").cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&marked(&again.journal)), names(&known), "{position}, {later}");
    }
    said
}

/// The marks whose lowest path is gone in a build.
fn without_lowest(build: &str) -> &'static [&'static str] {
    match build {
        "raised" => &["use-baz"],
        "dropped" | "bare" => &["use-baz", "greet", "tail"],
        _ => &[],
    }
}

/// The marks of which the run still needs the lowest path, as the engine of the former build says.
async fn needed(journal: &Journal, build: &str) -> Vec<String> {
    let place = Place::memory();
    // Another process advances it, and it is looked at.
    let _held = moved(journal, build).hold(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let changes = engine.changes().await.unwrap();
    engine.shutdown().await.unwrap();
    let is_needed = |change: &&ChangeReport| !matches!(change.advice, ChangeAdvice::Raise { .. });
    changes.iter().filter(is_needed).map(|change| change.name.clone()).collect()
}

/// All deploys, one after the other; before each of them the run dies somewhere.
async fn deploys(workflow: &str, cuts: [usize; 5]) {
    let (mut journal, mut kept) = (whole("plain", workflow).await, 1);
    for (at, cut) in cuts.into_iter().enumerate() {
        let (former, build) = (BUILDS[at], BUILDS[at + 1]);
        let position = kept + cut % (journal.events.len() - kept);
        let cut_off = journal.first(position);
        let needed = needed(&cut_off, former).await;
        let unfit = without_lowest(build).iter().any(|name| needed.iter().any(|needed| needed == name));
        let resumed = resume(&cut_off, build).await;
        match resumed.end {
            RunEnd::Completed(_) => {}
            // The path is gone, as was said before, and the run waits for a build that has it.
            RunEnd::Stopped(
                Fault::MarkOutOfRange { recorded: 1, from: 2, to: 2, .. } | Fault::Diverged(_),
            ) if unfit => {
                words(&resume(&resumed.journal, former).await.end);
                return;
            }
            end => panic!("{build} at {position}: {end:?}, where {needed:?} are needed"),
        }
        (journal, kept) = (resumed.journal, position);
    }
}

#[test]
fn no_row_of_deploys_diverges() {
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runner
        .run(&(proptest::bool::ANY, proptest::array::uniform5(0_usize..200)), |(crowd, cuts)| {
            runtime.block_on(deploys(if crowd { "crowd" } else { "shop" }, cuts));
            Ok(())
        })
        .unwrap();
}
