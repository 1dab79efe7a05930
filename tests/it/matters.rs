//! Approvals and questions with names: what a person said about one matter counts for no other one.
//!
//! A build is a module with a workflow of the same name. A deploy is a journal, cut somewhere, in the hands of another one.

use aether::engine::RunEnd;
use aether::prelude::*;
use aether::store::RunFilter;

use crate::namesakes::end;
use crate::seeds::kit::{Calls, Journal, Place, Rows, builder};

macro_rules! build {
    ($module:ident, $cx:ident, $body:block) => {
        #[allow(dead_code, reason = "a build is found by its name in a journal, and not called")]
        mod $module {
            use super::*;

            #[workflow]
            pub(super) async fn decide($cx: &mut Cx) -> Result<u32> $body
        }
    };
}

build!(first, cx, {
    cx.approval("Is it lawful?").named("legal").await?.granted()?;
    cx.approval("Is it paid?").named("finance").await?.granted()?;
    Ok(cx.ask("How many seats?").named("seats").await?)
});
build!(reworded, cx, {
    cx.approval("Is it allowed by law?").named("legal").await?.granted()?;
    cx.approval("Is there money for it?").named("finance").await?.granted()?;
    Ok(cx.ask("How many seats, please?").named("seats").await?)
});
build!(swapped, cx, {
    cx.approval("Is it paid?").named("finance").await?.granted()?;
    cx.approval("Is it lawful?").named("legal").await?.granted()?;
    Ok(cx.ask("How many seats?").named("seats").await?)
});
build!(deleted, cx, {
    cx.approval("Is it paid?").named("finance").await?.granted()?;
    Ok(cx.ask("How many seats?").named("seats").await?)
});
build!(nameless, cx, {
    cx.approval("Is it lawful?").await?.granted()?;
    cx.approval("Is it paid?").named("finance").await?.granted()?;
    Ok(cx.ask("How many seats?").named("seats").await?)
});
build!(other_question, cx, {
    cx.approval("Is it lawful?").named("legal").await?.granted()?;
    cx.approval("Is it paid?").named("finance").await?.granted()?;
    Ok(cx.ask("How many rooms?").named("rooms").await?)
});
build!(named_since, cx, {
    cx.approval("Is it lawful?").named("legal").await?.granted()?;
    Ok(cx.ask("How many seats?").named("seats").await?)
});
build!(unnamed, cx, {
    cx.approval("Is it lawful?").await?.granted()?;
    Ok(cx.ask("How many seats?").await?)
});

async fn recorded<W: aether::definition::Workflow<Input = ()>>() -> Journal {
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    engine.start::<W>(()).id("decided").await.unwrap();
    assert!(matches!(end(&engine, "decided").await, RunEnd::Completed(_)));
    engine.shutdown().await.unwrap();
    Journal::read(&place.store, "decided").await
}

/// Whether a build goes on with the run, as a check of it said before.
async fn fits(journal: &Journal, build: &str) -> bool {
    let place = Place::memory();
    let journal = journal.in_module(&format!("{}::{build}", module_path!()));
    journal.plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let checked = engine.check(RunFilter::new()).await.unwrap();
    let end = end(&engine, &journal.run).await;
    let fits = matches!(end, RunEnd::Completed(_));
    assert!(fits || matches!(end, RunEnd::Stopped(_)), "{end:?}");
    assert_eq!(fits, checked.runs.iter().all(|run| run.verdict.to_string() != "parks"), "{checked}");
    engine.shutdown().await.unwrap();
    fits
}

#[tokio::test]
async fn what_was_said_about_one_matter_counts_for_no_other() {
    let journal = recorded::<first::decide>().await;
    let asked = journal.through("approval_requested", "approval");
    let agreed = journal.through("approval_decided", "approval");
    for build in ["swapped", "deleted", "nameless"] {
        for cut in [&asked, &agreed, &journal.open()] {
            assert!(!fits(cut, build).await, "{build}");
        }
        assert!(fits(&journal.first(1), build).await, "{build}");
    }
    assert!(fits(&agreed, "other_question").await);
    assert!(!fits(&journal.through("approval_requested", "ask"), "other_question").await);
}

#[tokio::test]
async fn a_matter_with_a_name_may_be_worded_otherwise() {
    let journal = recorded::<first::decide>().await;
    for length in 1..journal.open().events.len() {
        assert!(fits(&journal.first(length), "reworded").await, "{length}");
    }
}

#[tokio::test]
async fn what_had_no_name_may_get_one() {
    let journal = recorded::<unnamed::decide>().await;
    for length in 1..journal.open().events.len() {
        assert!(fits(&journal.first(length), "named_since").await, "{length}");
    }
}
