//! Marks: code is changed at every position of a run, in one deploy after the other, and no run is lost or repeated.
//!
//! A build is a module with a workflow of the same name. A deploy is a journal, cut anywhere, in the hands of another build.

use std::collections::BTreeSet;
use std::time::Duration;

use aether::engine::{ChangeAdvice, ChangeReport, RunEnd};
use aether::error::Fault;
use aether::prelude::*;
use aether::store::event::{Event, RunCreated, VersionMarked};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time};

/// Say a word to the world.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn say(cx: &mut StepCx, word: &str) -> Result<String> {
    cx.dep::<Calls>()?.add(cx.command_id().as_str(), word);
    Ok(word.to_owned())
}

/// A build: a shop in which the code `$place` stands in sequence, in branches, in items, in a loop, in an inline workflow
/// and in a race, and `$tail` behind the last command of items and branches.
macro_rules! build {
    ($module:ident, $cx:ident, $said:ident, { $($place:tt)* }, { $($tail:tt)* }) => {
        mod $module {
            use super::*;

            #[workflow]
            pub async fn inner($cx: &mut Cx) -> Result<Vec<String>> {
                let mut $said = vec![say($cx, "in").await?];
                $($place)*
                Ok($said)
            }

            #[workflow]
            pub async fn shop($cx: &mut Cx) -> Result<Vec<String>> {
                let mut $said = vec![say($cx, "open").await?];
                $($place)*
                let (left, right) = $cx
                    .join((
                        async |$cx: &mut Cx| {
                            let mut $said = vec![];
                            $($place)*
                            $said.push(say($cx, "left").await?);
                            $($tail)*
                            Ok::<_, Failure>($said)
                        },
                        async |$cx: &mut Cx| {
                            let mut $said = vec![say($cx, "right").await?];
                            $($place)*
                            $said.push(say($cx, "far right").await?);
                            Ok::<_, Failure>($said)
                        },
                    ))
                    .await;
                $said.extend(left?);
                $said.extend(right?);
                let items = $cx
                    .each(0..3, async |$cx: &mut Cx, _| {
                        let mut $said = vec![say($cx, "item").await?];
                        $($place)*
                        $($tail)*
                        Ok::<_, Failure>($said)
                    })
                    .limit(2)
                    .await;
                for item in items {
                    $said.extend(item?);
                }
                for _round in 0..2 {
                    $($place)*
                }
                $said.extend(inner($cx).await?);
                let won = $cx
                    .race((
                        async |$cx: &mut Cx| {
                            let mut $said = vec![];
                            $($place)*
                            $($tail)*
                            Ok::<_, Failure>($said)
                        },
                        async |$cx: &mut Cx| {
                            $cx.sleep(Duration::from_secs(3600)).await;
                            Ok(vec![])
                        },
                    ))
                    .await;
                $said.extend(won?);
                Ok($said)
            }
        }
    };
}

build!(plain, cx, said, { said.push(say(cx, "foo").await?); }, {});
build!(
    added,
    cx,
    said,
    {
        said.push(match cx.version("use-baz", 1..=2).await {
            1 => say(cx, "foo").await?,
            _ => say(cx, "baz").await?,
        });
    },
    {
        if cx.version("tail", 1..=2).await == 2 {
            said.push(say(cx, "tail").await?);
        }
    }
);
build!(
    two,
    cx,
    said,
    {
        let baz = cx.version("use-baz", 1..=2).await == 2;
        if cx.version("greet", 1..=2).await == 2 {
            said.push(say(cx, "hello").await?);
        }
        said.push(say(cx, if baz { "baz" } else { "foo" }).await?);
    },
    {
        if cx.version("tail", 1..=2).await == 2 {
            said.push(say(cx, "tail").await?);
        }
    }
);
build!(
    raised,
    cx,
    said,
    {
        cx.version("use-baz", 2..=2).await;
        if cx.version("greet", 1..=2).await == 2 {
            said.push(say(cx, "hello").await?);
        }
        said.push(say(cx, "baz").await?);
    },
    {
        if cx.version("tail", 1..=2).await == 2 {
            said.push(say(cx, "tail").await?);
        }
    }
);
build!(
    dropped,
    cx,
    said,
    {
        if cx.version("greet", 2..=2).await == 2 {
            said.push(say(cx, "hello").await?);
        }
        said.push(say(cx, "baz").await?);
    },
    {
        if cx.version("tail", 2..=2).await == 2 {
            said.push(say(cx, "tail").await?);
        }
    }
);
build!(
    bare,
    cx,
    said,
    {
        said.push(say(cx, "hello").await?);
        said.push(say(cx, "baz").await?);
    },
    { said.push(say(cx, "tail").await?); }
);

/// The builds, in the order of their deploys.
const BUILDS: [&str; 6] = ["plain", "added", "two", "raised", "dropped", "bare"];

/// The module of a build.
fn module(build: &str) -> String {
    format!("{}::{build}", module_path!())
}

/// The journal as if the run had been created by `build`.
fn moved(journal: &Journal, build: &str) -> Journal {
    let mut journal = journal.clone();
    if let Some(Event::RunCreated(RunCreated { module: of, .. })) = journal.events.first_mut() {
        *of = module(build);
    }
    journal
}

/// The versions that a journal holds, by name.
fn marked(journal: &Journal) -> BTreeSet<(String, u32)> {
    let mark = |event: &Event| match event {
        Event::VersionMarked(VersionMarked { change, version, .. }) => Some((change.clone(), *version)),
        _ => None,
    };
    journal.events.iter().filter_map(mark).collect()
}

/// Commands whose outcome is in the journal.
fn committed(journal: &Journal) -> Vec<String> {
    let commit = |event: &Event| match event {
        Event::CommandCommitted(e) => Some(e.command.as_str().to_owned()),
        _ => None,
    };
    journal.events.iter().filter_map(commit).collect()
}

/// The words of a run that has ended.
fn words(end: &RunEnd) -> Vec<String> {
    match end {
        RunEnd::Completed(value) => value.decode().unwrap(),
        end => panic!("{end:?}"),
    }
}

/// What became of a run that a build resumed.
struct Resumed {
    journal: Journal,
    end: RunEnd,
}

/// `build` resumes a run of which `journal` was written. Nothing that it holds is done again.
async fn resume(journal: &Journal, build: &str) -> Resumed {
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
    engine.shutdown().await;
    Resumed { journal: after, end }
}

/// A run under one build, from its start to its end.
async fn whole(build: &str) -> Journal {
    let created = crate::seeds::kit::created("shop", "{}");
    let begun = Journal { run: "shop".into(), events: vec![created] };
    let resumed = resume(&begun, build).await;
    words(&resumed.end);
    resumed.journal
}

/// Whether the words of a run come from one version of each change.
fn is_of_one_mind(said: &[String]) -> bool {
    let says = |word: &str| said.iter().any(|said| said == word);
    !(says("foo") && says("baz"))
}

#[tokio::test]
async fn a_new_run_takes_the_new_paths() {
    let says = async |build| {
        let journal = whole(build).await;
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
    let (plain, added) = (whole("plain").await, whole("added").await);
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
    let plain = whole("plain").await;
    for position in 1..plain.events.len() {
        let resumed = resume(&plain.first(position), "added").await;
        let said = words(&resumed.end);
        assert!(is_of_one_mind(&said), "{position}: {said:?}");
        // The run has been at the first place, and nowhere near it.
        let passed = committed(&plain.first(position)).iter().any(|command| command == "1:say");
        assert!(!passed || said.contains(&"foo".to_owned()), "{position}");
        assert!(position > 4 || said.contains(&"baz".to_owned()), "{position}: {said:?}");
        // What was decided once stays, wherever the next crash is.
        let known = marked(&resumed.journal);
        let length = resumed.journal.events.len();
        for later in (position..length).filter(|later| later - position < 3 || later % 41 == 0) {
            let again = resume(&resumed.journal.first(later), "added").await;
            assert_eq!(words(&again.end).contains(&"foo".to_owned()), said.contains(&"foo".to_owned()));
            assert_eq!(marked(&again.journal), known, "{position}, {later}");
        }
    }
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
    engine.shutdown().await;
    let is_needed = |change: &&ChangeReport| !matches!(change.advice, ChangeAdvice::Raise { .. });
    changes.iter().filter(is_needed).map(|change| change.name.clone()).collect()
}

/// All deploys, one after the other; before each of them the run dies somewhere.
async fn deploys(cuts: [usize; 5]) {
    let (mut journal, mut kept) = (whole("plain").await, 1);
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
            RunEnd::Stopped(Fault::MarkOutOfRange { recorded: 1, from: 2, to: 2, .. } | Fault::Diverged(_))
                if unfit =>
            {
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
    let mut runner = TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runner
        .run(&proptest::array::uniform5(0_usize..200), |cuts| {
            runtime.block_on(deploys(cuts));
            Ok(())
        })
        .unwrap();
}
