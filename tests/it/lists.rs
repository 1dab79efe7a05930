//! Labels and lists of runs, as a program sees them.

use aether::error::{LabelError, StartError};
use aether::labels::{Labels, MAX_LABEL_VALUE};
use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use aether::store::event::Event;
use aether::store::{RunFilter, read};
use aether::view::Status;

use crate::seeds::kit::{Calls, Place, builder, in_time, run_id, stores};

/// Adds nothing.
#[workflow]
async fn li_child(cx: &mut Cx, n: u32) -> Result<u32> {
    let _ = cx.now().await;
    Ok(n)
}

/// Three children, two of them with labels, then one whose label is too long.
#[workflow]
async fn li_parent(cx: &mut Cx) -> Result<u32> {
    let sum = cx.child::<li_child>(1).label("customer", "acme").label("part", "1").await?;
    let started = cx.start_child::<li_child>(4).label("customer", "acme").label("part", "2").await?;
    let sum = sum + cx.child::<li_child>(2).await? + started.result(cx).await?;
    match cx.child::<li_child>(3).label("long", "x".repeat(MAX_LABEL_VALUE + 1)).await {
        Err(StepError::Unrecordable(error)) if error.to_string().contains("over the limit") => Ok(sum),
        other => Err(Failure::permanent(format!("{other:?}"))),
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let mut labels = Labels::default();
    pairs.iter().for_each(|(key, value)| labels.insert(*key, *value).unwrap());
    labels
}

async fn ids(engine: &Engine, filter: RunFilter) -> Vec<String> {
    engine.runs(filter).await.unwrap().iter().map(|run| run.id.to_string()).collect()
}

#[tokio::test]
async fn labels_are_given_at_the_start_and_stay() {
    for make in stores() {
        let place = make();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let start = || engine.start::<li_child>(7).id("one");
        let run =
            start().label("customer", "acme").label("tier", "silver").label("tier", "gold").await.unwrap();
        in_time(run.result()).await.unwrap();
        let again = start().label("customer", "other").await.unwrap();
        assert_eq!(in_time(again.result()).await.unwrap(), 7, "the same run");
        let acme = RunFilter::new().workflow("li_child").label("customer", "acme").status(Status::Completed);
        let found = engine.runs(acme.clone().limit(50)).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].labels, labels(&[("customer", "acme"), ("tier", "gold")]));
        assert_eq!(engine.count(RunFilter::new().label("customer", "other")).await.unwrap(), 0);

        let recording = engine.export(&run_id("one")).await.unwrap();
        let elsewhere = builder(&Place::memory().store, &Calls::default()).start().await.unwrap();
        elsewhere.import(&recording).await.unwrap();
        assert_eq!(ids(&elsewhere, acme).await, ["one"], "a recording keeps them");
    }
}

#[tokio::test]
async fn a_run_without_labels_says_nothing_of_them() {
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    engine.start::<li_child>(1).id("bare").await.unwrap();
    engine.start::<li_child>(1).id("labeled").label("a", "b").await.unwrap();
    let first = async |id: &str| place.store.load(&run_id(id), 0).await.unwrap();
    assert!(!first("bare").await[0].text.contains("labels"), "as builds without labels wrote it");
    let frames = first("labeled").await;
    assert!(frames[0].text.contains(r#""labels":{"a":"b"}"#), "{}", frames[0].text);
    let events = read::events(&*place.store, &run_id("labeled"), &frames[..1]).await.unwrap();
    assert!(matches!(&events[0], Event::RunCreated(created) if created.labels == labels(&[("a", "b")])));
}

#[tokio::test]
async fn a_label_over_a_limit_starts_nothing() {
    let place = Place::memory();
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    for (key, value) in [("", "x".to_owned()), ("k", "x".repeat(MAX_LABEL_VALUE + 1)), ("k\n", String::new())]
    {
        let error = engine.start::<li_child>(1).label(key, value).label("fine", "x").await.unwrap_err();
        assert!(matches!(&error, StartError::Label { workflow: "li_child", .. }), "{error}");
    }
    let many = (0..33).fold(engine.start::<li_child>(1), |start, n| start.label(format!("{n}"), ""));
    let error = many.await.unwrap_err();
    assert!(matches!(error, StartError::Label { error: LabelError::TooMany { .. }, .. }), "{error}");
    assert_eq!(engine.count(RunFilter::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_child_has_labels_of_its_own() {
    for make in stores() {
        let place = make();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<li_parent>(()).id("p").label("customer", "else").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 7);
        let of_parent = RunFilter::new().parent(run_id("p"));
        assert_eq!(engine.count(of_parent.clone()).await.unwrap(), 3);
        assert_eq!(engine.count(of_parent.clone().label("customer", "acme")).await.unwrap(), 2);
        for part in ["1", "2"] {
            let labeled = engine.runs(of_parent.clone().label("part", part)).await.unwrap();
            assert_eq!(labeled.len(), 1);
            assert_eq!(labeled[0].labels, labels(&[("customer", "acme"), ("part", part)]));
        }
        assert_eq!(ids(&engine, RunFilter::new().label("customer", "else")).await, ["p"], "not handed down");
        engine.verify(&run_id("p")).await.unwrap();
    }
}

/// Every statement of a page's SQL.
fn statements(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("{}/docs/{page}.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let blocks = text.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned());
    let statements = blocks.flat_map(|block| block.split(";\n").map(str::to_owned).collect::<Vec<_>>());
    statements.filter(|sql| !sql.trim().is_empty()).collect()
}

#[tokio::test]
async fn the_queries_of_the_pages_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let engine = Engine::builder().sqlite(&path).start().await.unwrap();
    let run = engine.start::<li_parent>(()).id("travel-1").label("customer", "acme").await.unwrap();
    in_time(run.result()).await.unwrap();
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "query_only", true).unwrap();
    let (mut tried, mut fruitful) = (0, 0);
    for sql in ["sql", "operating", "history-format"].into_iter().flat_map(statements) {
        let mut query = db.prepare(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let mut rows = query.query([]).unwrap();
        let mut found = false;
        while rows.next().unwrap_or_else(|error| panic!("{sql}: {error}")).is_some() {
            found = true;
        }
        tried += 1;
        fruitful += usize::from(found);
    }
    assert!(tried >= 19 && fruitful >= 8, "{fruitful} of {tried} have found something");
    let page = std::fs::read_to_string(format!("{}/docs/sql.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    for line in page.lines().filter(|line| line.starts_with("| `aether_")) {
        let names: Vec<_> = line.split('`').skip(1).step_by(2).collect();
        let Some((table, columns)) = names.split_first() else { continue };
        let sql = format!("SELECT {} FROM {table}", columns.join(", "));
        db.prepare(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}
