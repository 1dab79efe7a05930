//! Versions of one workflow in one program: which of them a run is started with, and which of them continues it after a
//! restart, also when its own is gone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aether::definition::{Definition, Verdict, Workflow, combined_fingerprint, diff};
use aether::effect::EffectClass;
use aether::engine::EngineBuilder;
use aether::error::{BuildError, StartError};
use aether::prelude::*;
use aether::store::memory::MemoryStore;
use aether_testing::SimEnvironment;

use crate::seeds::kit::{in_time, until_waiting};

/// Read a ticket.
#[step(effect = "read")]
async fn read(_cx: &mut StepCx, ticket: &str) -> Result<String> {
    Ok(format!("read {ticket}"))
}

/// Rate a ticket.
#[step(effect = "read")]
async fn rate(_cx: &mut StepCx, text: &str) -> Result<u64> {
    Ok(text.len() as u64)
}

#[workflow]
async fn triage(cx: &mut Cx, ticket: String) -> Result<String> {
    let text = read(cx, &ticket).await?;
    let word: String = cx.signal("word").await?;
    Ok(format!("one: {text}, {word}"))
}

/// The same up to the signal, and a rating behind it.
#[workflow(of = "triage", version = 2)]
async fn triage_v2(cx: &mut Cx, ticket: String) -> Result<String> {
    let text = read(cx, &ticket).await?;
    let word: String = cx.signal("word").await?;
    let rating = rate(cx, &text).await?;
    Ok(format!("two: {text}, {word}, {rating}"))
}

/// Rates first, so that no run of an earlier version fits.
#[workflow(of = "triage", version = 3)]
async fn triage_v3(cx: &mut Cx, ticket: String) -> Result<String> {
    let rating = rate(cx, &ticket).await?;
    let word: String = cx.signal("word").await?;
    Ok(format!("three: {word}, {rating}"))
}

/// A version that lives in a module of its own.
mod fourth {
    use aether::prelude::*;

    #[workflow(of = "it::versions::triage", version = 4)]
    pub(super) async fn triage(_cx: &mut Cx, ticket: String) -> Result<String> {
        Ok(format!("four: {ticket}"))
    }
}

fn builder(path: &Path) -> EngineBuilder {
    let poll = Duration::from_millis(10);
    Engine::builder().sqlite(path).poll_interval(poll).eviction_grace(poll)
}

/// Starts runs of the first two versions, waits until they wait, and stops.
async fn two_waiting_runs(path: &Path) {
    let engine = builder(path).start().await.unwrap();
    let one = engine.start::<triage>("t".to_owned()).id("one").await.unwrap();
    let two = engine.start::<triage_v2>("t".to_owned()).id("two").await.unwrap();
    in_time(async {
        until_waiting(&one).await;
        until_waiting(&two).await;
    })
    .await;
    engine.shutdown().await.unwrap();
}

#[test]
fn the_versions_of_a_workflow_share_its_name_and_its_module() {
    let of = |def: &'static aether::definition::WorkflowDef| (def.name, def.module, def.version);
    let module = "it::versions";
    assert_eq!(of(triage::DEF), ("triage", module, 1));
    assert_eq!(of(triage_v2::DEF), ("triage", module, 2));
    assert_eq!(of(fourth::triage::DEF), ("triage", module, 4));
}

#[tokio::test]
async fn open_runs_continue_with_the_version_they_were_recorded_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    two_waiting_runs(&path).await;

    let engine = builder(&path).start().await.unwrap();
    // A handle of any version serves: their results are of one type.
    for (id, expected) in [("one", "one: read t, go"), ("two", "two: read t, go, 6")] {
        engine.signal(&id.parse().unwrap(), "word", "w", &"go").await.unwrap();
        let run = engine.handle::<fourth::triage>(id).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), expected);
        engine.verify(run.id()).await.unwrap();
    }
    let versions: Vec<_> = engine.versions("triage", "it::versions").iter().map(|def| def.version).collect();
    assert_eq!(versions, [1, 2, 3, 4]);
    assert_eq!(engine.definition("triage", "it::versions").unwrap().version, 4);
}

#[tokio::test]
async fn a_run_whose_version_is_gone_continues_with_the_newest_that_is_linked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    two_waiting_runs(&path).await;

    let without_the_rest =
        builder(&path).without_workflow::<triage_v3>().without_workflow::<fourth::triage>();
    let engine = without_the_rest.without_workflow::<triage>().start().await.unwrap();
    engine.signal(&"one".parse().unwrap(), "word", "w", &"go").await.unwrap();
    let run = engine.handle::<triage_v2>("one").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "two: read t, go, 6");
}

#[tokio::test]
async fn a_run_that_does_not_fit_the_newest_version_is_kept_for_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    two_waiting_runs(&path).await;

    let only_the_third = |path| {
        let builder = builder(path).without_workflow::<triage>().without_workflow::<triage_v2>();
        builder.without_workflow::<fourth::triage>()
    };
    let engine = only_the_third(&path).start().await.unwrap();
    engine.signal(&"one".parse().unwrap(), "word", "w", &"go").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!engine.find("one").await.unwrap().status().await.unwrap().is_terminal());
    engine.shutdown().await.unwrap();

    let engine = builder(&path).start().await.unwrap();
    let run = engine.handle::<triage>("one").await.unwrap();
    // Now, and not after the pause that follows on code that did not fit.
    run.advance().await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "one: read t, go");
}

#[tokio::test]
async fn the_same_id_and_input_under_another_version_is_the_same_run() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let first = engine.start::<triage>("t".to_owned()).id("same").await.unwrap();
    let again = engine.start::<triage_v2>("t".to_owned()).id("same").await.unwrap();
    assert_eq!(first.id(), again.id());
    engine.signal(first.id(), "word", "w", &"go").await.unwrap();
    assert_eq!(in_time(again.result()).await.unwrap(), "one: read t, go");
    let other = engine.start::<triage_v2>("u".to_owned()).id("same").await;
    assert!(matches!(other, Err(StartError::IdTaken { .. })), "{other:?}");
}

mod twice {
    use aether::prelude::*;

    pub(super) mod a {
        use super::*;
        #[workflow(of = "it::versions::count", version = 2)]
        pub(crate) async fn left<T: aether::definition::Recordable>(
            _cx: &mut Cx,
            all: Vec<T>,
        ) -> Result<usize> {
            Ok(all.len())
        }
    }

    pub(super) mod b {
        use super::*;
        #[workflow(of = "it::versions::count", version = 2)]
        pub(crate) async fn right<T: aether::definition::Recordable>(
            _cx: &mut Cx,
            all: Vec<T>,
        ) -> Result<usize> {
            Ok(all.len() + 1)
        }
    }
}

#[tokio::test]
async fn two_versions_with_one_number_are_refused_with_both_lines() {
    // Generic, so that they are not linked into every other test.
    let builder =
        Engine::builder().memory().register::<twice::a::left<u8>>().register::<twice::b::right<u8>>();
    let error = builder.start().await.unwrap_err();
    let BuildError::DuplicateWorkflow { name, module, version, first, second } = &error else {
        panic!("{error}")
    };
    assert_eq!((*name, *module, *version), ("count", "it::versions", 2));
    let lines = (twice::a::left::<u8>::DEF.line, twice::b::right::<u8>::DEF.line);
    assert!(first.ends_with(&format!("versions.rs:{}", lines.0)), "{first}");
    assert!(second.ends_with(&format!("versions.rs:{}", lines.1)), "{second}");
    assert!(error.to_string().contains("two workflows that are version 2 of `count`"), "{error}");
}

/// Runs both versions: inside, and as runs of their own.
#[workflow]
async fn both(cx: &mut Cx) -> Result<String> {
    let inside = short(cx, 1).await? + short_v2(cx, 1).await?;
    let (one, two) = (cx.child::<short>(1).await?, cx.child::<short_v2>(1).await?);
    Ok(format!("{inside} {one} {two}"))
}

#[workflow]
async fn short(cx: &mut Cx, n: u64) -> Result<u64> {
    cx.now().await;
    Ok(n)
}

#[workflow(of = "short", version = 2)]
async fn short_v2(cx: &mut Cx, n: u64) -> Result<u64> {
    cx.uuid().await;
    Ok(n * 10)
}

#[tokio::test]
async fn workflows_call_and_start_the_version_that_they_name() {
    let dir = tempfile::tempdir().unwrap();
    let engine = builder(&dir.path().join("a.db")).start().await.unwrap();
    let run = engine.start::<both>(()).id("both").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "11 1 10");
    engine.verify(run.id()).await.unwrap();
}

/// The first version of a report.
#[workflow]
async fn report(_cx: &mut Cx) -> Result<u8> {
    Ok(1)
}

#[workflow(of = "report", version = 2)]
async fn report_v2(_cx: &mut Cx) -> Result<u8> {
    Ok(2)
}

#[tokio::test(start_paused = true)]
async fn a_schedule_starts_the_version_that_it_names() {
    let store = MemoryStore::new();
    let world = SimEnvironment::new("2026-01-02T00:30:00Z".parse().unwrap(), 7);
    let engine = || {
        let builder = Engine::builder().environment(Arc::new(world.clone())).store(Arc::new(store.clone()));
        builder.poll_interval(Duration::from_secs(600))
    };
    let hour = Duration::from_secs(3600);
    let result = async |engine: &Engine, tick: &str| {
        let id = format!("schedule:report:2026-01-02T{tick}:00:00Z");
        engine.handle::<report>(id).await.unwrap().result().await.unwrap()
    };

    let first = engine().start().await.unwrap();
    first.schedule::<report>("0 * * * *", "UTC").await.unwrap();
    tokio::time::sleep(hour).await;
    assert_eq!(result(&first, "01").await, 1);
    let schedule = first.schedule::<report_v2>("0 * * * *", "UTC").await.unwrap();
    tokio::time::sleep(hour).await;
    assert_eq!(result(&first, "02").await, 2);
    assert_eq!(schedule.record().await.unwrap().spec.version, 2);
    first.shutdown().await.unwrap();

    // An older worker does not have it, and leaves its ticks to others.
    let older = engine().without_workflow::<report_v2>().start().await.unwrap();
    tokio::time::sleep(hour).await;
    let tick = older.find("schedule:report:2026-01-02T03:00:00Z").await;
    assert!(matches!(tick, Err(StartError::Store(_))), "{tick:?}");
    older.shutdown().await.unwrap();
    let newer = engine().start().await.unwrap();
    tokio::time::sleep(hour).await;
    assert_eq!(result(&newer, "04").await, 2);
}

/// Callers of one workflow, of another, of a generic one, and of none.
mod callers {
    use aether::prelude::*;

    use super::*;

    #[workflow]
    pub(super) async fn of_short(cx: &mut Cx) -> Result<u64> {
        short(cx, 1).await
    }

    #[workflow]
    pub(super) async fn through_another(cx: &mut Cx) -> Result<u64> {
        cx.join((async |cx: &mut Cx| of_short(cx).await, async |_: &mut Cx| Ok::<_, Failure>(()))).await.0
    }

    #[workflow]
    pub(super) async fn of_a_generic_one(cx: &mut Cx) -> Result<usize> {
        crate::versions::twice::a::left::<u8>(cx, Vec::new()).await
    }

    #[workflow]
    pub(super) async fn of_none(cx: &mut Cx) -> Result<()> {
        cx.now().await;
        Ok(())
    }

    #[workflow]
    pub(super) async fn of_itself(cx: &mut Cx, n: u64) -> Result<u64> {
        if n == 0 { Ok(0) } else { of_itself(cx, n - 1).await }
    }
}

#[test]
fn a_fingerprint_covers_what_runs_inside() {
    let combined = |def: &'static aether::definition::WorkflowDef| combined_fingerprint(def);
    for def in
        [callers::of_short::DEF, callers::through_another::DEF, callers::of_a_generic_one::DEF, triage::DEF]
    {
        assert_ne!(combined(def), def.fingerprint, "{}", def.name);
        assert_eq!(combined(def), combined(def));
    }
    assert_eq!(combined(callers::of_none::DEF), callers::of_none::DEF.fingerprint);
    assert_eq!(combined(callers::of_itself::DEF), callers::of_itself::DEF.fingerprint);
    let reached = |def| Definition::of(def).linked.into_iter().map(|code| code.function).collect::<Vec<_>>();
    assert_eq!(reached(callers::through_another::DEF), ["of_short", "short"]);
    assert_eq!(reached(callers::of_a_generic_one::DEF), ["left"]);
}

#[tokio::test]
async fn definitions_of_a_program_are_read_back_and_compared() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let all = engine.definitions();
    let kept: Vec<_> =
        all.iter().map(|definition| Definition::parse(&definition.to_json().to_string()).unwrap()).collect();
    assert_eq!(kept, all);

    let of = |version| {
        let found = kept.iter().find(|kept| {
            (kept.name.as_str(), kept.module.as_str(), kept.version) == ("triage", "it::versions", version)
        });
        found.unwrap()
    };
    let read = &of(1).states[0];
    assert_eq!((read.step.as_deref(), read.class), (Some("read"), Some(EffectClass::Read)));
    let rating = &of(2).states[2];
    assert_eq!((rating.name.as_str(), rating.inline.as_deref()), ("rate", None));

    let verdicts =
        |old, new| diff(of(old), of(new)).places.into_iter().map(|place| place.verdict).collect::<Vec<_>>();
    assert_eq!(verdicts(1, 2), [Verdict::LaterChanged, Verdict::LaterChanged]);
    assert_eq!(verdicts(1, 3), [Verdict::ChangedBefore, Verdict::ChangedBefore]);
    assert!(diff(of(1), of(2)).fits() && !diff(of(1), of(3)).fits());
    let text = diff(of(1), of(3)).to_string();
    assert!(text.contains("`read` at tests/it/versions.rs:"), "{text}");
    assert!(text.contains("and the new one for `rate` at tests/it/versions.rs:"), "{text}");
}

#[tokio::test]
async fn a_workflow_that_is_left_out_is_not_linked() {
    let engine = Engine::builder().memory().without_workflow::<callers::of_none>().start().await.unwrap();
    assert!(!engine.workflows().contains(&"of_none".to_owned()));
    assert_eq!(engine.versions("of_none", "it::versions::callers").len(), 0);
}

/// Sum up what came.
#[workflow]
async fn gather(_cx: &mut Cx, word: String) -> Result<String> {
    Ok(format!("one: {word}"))
}

/// Sum up what came, in another way.
#[workflow(of = "gather", version = 2)]
async fn gather_v2(_cx: &mut Cx, word: String) -> Result<String> {
    Ok(format!("two: {word}"))
}

#[tokio::test]
async fn a_build_without_the_version_of_a_gathered_start_leaves_it_to_one_that_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let id = {
        let newer = builder(&path).client().start().await.unwrap();
        let (quiet, most) = (Duration::from_millis(50), Duration::from_secs(60));
        let start = newer.start::<gather_v2>("a".into()).debounce("k", quiet, most).await.unwrap();
        newer.shutdown().await.unwrap();
        start.id().clone()
    };
    let older = builder(&path).without_workflow::<gather_v2>().start().await.unwrap();
    // Longer than it takes to find what is due.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(older.store().run(&id).await.unwrap(), None, "an older version stands in for no newer one");
    older.shutdown().await.unwrap();
    let newer = builder(&path).start().await.unwrap();
    let run = in_time(async {
        loop {
            match newer.handle::<gather_v2>(id.as_str()).await {
                Ok(run) => break run,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    assert_eq!(in_time(run.result()).await.unwrap(), "two: a");
    newer.shutdown().await.unwrap();
}
