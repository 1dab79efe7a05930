//! Databases of version 2 of the tables: `aether-postgres/tests/version_2` has the tables and what a killed worker left in
//! them. Today's workers bring them to today's version and go on with the runs.
//!
//! Names and signatures of the workflows and steps here are those of that worker: their code is the code of its runs. It was
//! in this module.

use std::time::Duration;

use aether::people::Pending;
use aether::postgres::PostgresOptions;
use aether::postgres::tokio_postgres::Client;
use aether::prelude::*;
use aether::queue::LimitKind;
use aether_pg_tests::{Cluster, Database};
use futures::future::join_all;

use super::kit::{Calls, client, in_time};
use super::refusals::in_a_file;

const VERSION_2: &[&str] = &[
    include_str!("../../aether-postgres/tests/version_2/schema.sql"),
    include_str!("../../aether-postgres/tests/version_2/rows.sql"),
];

/// Pay for something, once in the store.
#[step(effect = "tool", irreversible, scope = "store", key = |item| item)]
async fn v2_pay(cx: &mut StepCx, item: String) -> Result<String> {
    Calls::count(cx)?;
    Ok(format!("paid for the {item}"))
}

/// Describe something at length.
#[step(effect = "read")]
async fn v2_describe(cx: &mut StepCx, item: String) -> Result<String> {
    let _cx = cx;
    Ok(format!("a {} {item}", "very ".repeat(100)))
}

/// Tell of it.
#[step(effect = "read")]
async fn v2_tell(cx: &mut StepCx, words: Vec<String>) -> Result<String> {
    let told = cx.stream("told");
    words.iter().for_each(|word| told.send(word));
    Ok(words.concat())
}

/// Send a message, of which nobody knows whether it was sent.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn v2_send(cx: &mut StepCx) -> Result<String> {
    // The worker of version 2 was killed in this body.
    Calls::count(cx)?;
    Ok(format!("sent under {}", cx.idempotency_key()))
}

/// Give something back.
#[step(effect = "tool")]
async fn v2_give_back(cx: &mut StepCx, item: String, taken: Option<String>) -> Result<()> {
    let _all = (cx, item, taken);
    Ok(())
}

/// Take something.
#[step(effect = "tool", compensate = v2_give_back)]
async fn v2_take(cx: &mut StepCx, item: String) -> Result<String> {
    let _cx = cx;
    Ok(format!("took the {item}"))
}

/// Buy something.
#[workflow]
pub(crate) async fn v2_order(cx: &mut Cx, item: String) -> Result<String> {
    let paid = v2_pay(cx, item.clone()).await?;
    let described = v2_describe(cx, item).await?;
    let word: String = cx.signal("go").await?;
    v2_tell(cx, vec![format!("{word}: "), paid, format!(", {} bytes", described.len())])
        .await
        .map_err(Failure::from)
}

/// Send a message.
#[workflow]
async fn v2_message(cx: &mut Cx) -> Result<String> {
    Ok(v2_send(cx).await?)
}

/// Have somebody else buy something.
#[workflow]
async fn v2_parent(cx: &mut Cx, item: String) -> Result<String> {
    let bought = cx.child::<v2_order>(item).await?;
    Ok(format!("somebody else: {bought}"))
}

/// Wait a moment.
#[workflow]
async fn v2_nap(cx: &mut Cx) -> Result<String> {
    cx.sleep(Duration::from_secs(20)).await;
    Ok("awake".to_owned())
}

/// Ask twice.
#[workflow]
async fn v2_ask(cx: &mut Cx) -> Result<String> {
    let approved = cx.approval("may I?").await?.is_approved();
    let answer: u32 = cx.ask("how many?").await?;
    Ok(format!("{approved} {answer}"))
}

/// Take something, fail, and give it back.
#[workflow]
async fn v2_fail(cx: &mut Cx) -> Result<String> {
    let taken = v2_take(cx, "book".to_owned()).await?;
    Err(Failure::permanent(format!("{taken}, and it was the wrong one")))
}

/// A database as the worker of version 2 left it.
async fn left() -> Database<'static> {
    let database = Cluster::shared().database().await;
    let client = client(&database.url()).await;
    for sql in VERSION_2 {
        client.batch_execute(sql).await.unwrap();
    }
    database
}

async fn texts(client: &Client, sql: &str) -> Vec<String> {
    let rows = client.query_typed(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Every column and every index of the store.
async fn tables(client: &Client) -> Vec<String> {
    let columns = "SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default, collation_name)
        FROM information_schema.columns WHERE table_schema = 'aether' ORDER BY 1";
    let indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'aether' ORDER BY 1";
    [texts(client, columns).await, texts(client, indexes).await].concat()
}

async fn wait_of(engine: &Engine, run: &str) -> Pending {
    let run = aether::id::RunId::new(run).unwrap();
    in_time(async {
        loop {
            if let Some(wait) = engine.pending(&run).await.unwrap().pop() {
                return wait;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

async fn result<W: aether::definition::Workflow<Output = String, Error = Failure>>(
    engine: &Engine,
    run: &str,
) -> String {
    let ended = in_time(engine.handle::<W>(run).await.unwrap().result()).await;
    ended.unwrap_or_else(|error| error.to_string())
}

/// Tells an order to go on, and reads what it streams.
async fn go(engine: &Engine, run: &str) -> String {
    let handle = engine.handle::<v2_order>(run).await.unwrap();
    engine.signal(handle.id(), "go", "1", &"bought").await.unwrap();
    let (mut told, mut whole) = (handle.stream::<String>("told").text(), String::new());
    while let Some(text) = in_time(told.next()).await.unwrap() {
        whole = text.to_string();
    }
    assert_eq!(in_time(handle.result()).await.unwrap(), whole);
    whole
}

/// Ten workers start at once on a database of version 2, and everything in it goes on.
async fn goes_on(options: PostgresOptions) {
    let (database, calls) = (left().await, Calls::default());
    let starts = join_all((0..10).map(|_| {
        let builder = Engine::builder().postgres_with(database.url(), options.clone().connections(2));
        let builder = builder.provide(calls.clone()).without::<in_a_file>();
        tokio::spawn(builder.poll_interval(Duration::from_millis(50)).start())
    }));
    let engines: Vec<Engine> =
        in_time(starts).await.into_iter().map(|engine| engine.unwrap().unwrap()).collect();
    let engine = &engines[7];

    // What had ended is as it was, and replays.
    assert_eq!(result::<v2_order>(engine, "done").await, "bought: paid for the lamp, 507 bytes");
    assert!(result::<v2_fail>(engine, "failed").await.contains("took the book, and it was the wrong one"));
    for run in ["done", "failed"] {
        engine.verify(&aether::id::RunId::new(run).unwrap()).await.unwrap();
    }
    // What was open goes on.
    assert_eq!(result::<v2_message>(engine, "message").await, "sent under aether:message:0:v2_send:0");
    assert_eq!(result::<v2_nap>(engine, "nap").await, "awake");
    assert_eq!(go(engine, "order").await, "bought: paid for the chair, 508 bytes");
    assert_eq!(go(engine, "parent/0:v2_order").await, "bought: paid for the table, 508 bytes");
    let parent = result::<v2_parent>(engine, "parent").await;
    assert_eq!(parent, "somebody else: bought: paid for the table, 508 bytes");
    let approval = wait_of(engine, "ask").await;
    engine.approve(&approval.run, &approval.command, "ann").await.unwrap();
    let question = in_time(async {
        loop {
            match wait_of(engine, "ask").await {
                wait if wait.command != approval.command => return wait,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await;
    engine.answer(&question.run, &question.command, &3, "ann").await.unwrap();
    assert_eq!(result::<v2_ask>(engine, "ask").await, "true 3");
    // A limit holds until it is removed.
    let limits = engine.limits().list().await.unwrap();
    assert_eq!(limits.iter().map(|limit| limit.kind).collect::<Vec<_>>(), [LimitKind::Running(0)]);
    assert_eq!(calls.made(), 1, "the message was sent, and nothing else happened");
    engine.limits().remove("paused", LimitKind::Running(0)).await.unwrap();
    assert_eq!(go(engine, "queued").await, "bought: paid for the shelf, 508 bytes");
    // A key of the whole store is held by who held it.
    let again = engine.start::<v2_order>("lamp".to_owned()).id("again").await.unwrap();
    assert!(in_time(again.result()).await.unwrap_err().to_string().contains("done"));
    assert_eq!(calls.made(), 2, "the shelf alone was paid for");
    // What is to begin later is still to begin.
    let schedules = engine.store().schedules(None, 10).await.unwrap();
    assert_eq!(schedules.iter().map(|schedule| &*schedule.name).collect::<Vec<_>>(), ["yearly"]);
    assert!(engine.store().keyed_start("debounce:v2_ask:later").await.unwrap().is_some());
    for engine in engines {
        engine.shutdown().await.unwrap();
    }

    // The tables are what a new database has.
    let new = Cluster::shared().database().await;
    let store = aether_postgres::PostgresStore::connect_with(&new.url(), options).await.unwrap();
    aether::store::Store::close(&store).await.unwrap();
    let (migrated, new) = (client(&database.url()).await, client(&new.url()).await);
    assert_eq!(tables(&migrated).await, tables(&new).await);
    let version = "SELECT version::text FROM aether.schema_version";
    assert_eq!(texts(&migrated, version).await, texts(&new, version).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_that_start_at_once_on_a_database_of_version_2_go_on_with_its_runs() {
    goes_on(PostgresOptions::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_that_start_at_once_in_portable_mode_go_on_with_runs_of_version_2() {
    goes_on(PostgresOptions::new().portable(true)).await;
}
