//! How long a call waits for what is busy, and connections that are not used again.

use std::time::Duration;

use aether_core::store::StoreError;

use super::{Table, message, options, run_id, send};

/// Also on a slow machine, and much less than the lock is held for.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_call_waits_for_a_connection_and_for_its_turn_no_longer_than_its_patience() {
    let brief = options().patience(Duration::from_millis(200)).connections(1).lock_timeout(SOON * 10);
    let table = Table::with(brief.statement_timeout(SOON * 10)).await;
    table.run("run", Some("first"), 0).await;
    let locking = table.begin().await;
    locking.batch_execute("LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let database = table.database.clone();
    let sending = tokio::spawn(async move { send(&database, "run", &message("m", "signal:x")).await });
    table.until_blocked(1).await;
    let run = run_id("run");
    let looked =
        tokio::time::timeout(SOON, table.database.run_record(&run)).await.expect("it waits for ever");
    let Err(StoreError::Unavailable { reason, .. }) = looked else { panic!("{looked:?}") };
    assert!(reason.starts_with("no connection became free in "), "{reason}");
    let second = message("n", "signal:x");
    let sent = tokio::time::timeout(SOON, send(&table.database, run.as_str(), &second))
        .await
        .expect("it waits for ever");
    assert!(matches!(sent, Err(StoreError::Unavailable { .. })), "{sent:?}");
    // What was sent to the server is not cut off.
    assert!(!sending.is_finished());
    locking.batch_execute("COMMIT").await.unwrap();
    sending.await.unwrap().unwrap();
    table.database.run_record(&run).await.unwrap();
}

#[tokio::test]
async fn no_more_connections_are_kept_than_the_options_say() {
    let table = Table::with(options().connections(2)).await;
    let sessions = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'aether%'";
    let mut used = Vec::new();
    for _ in 0..2 {
        used.push(table.database.asking().connection().await.unwrap());
        used.push(table.database.asking_at_once(SOON).connection().await.unwrap());
    }
    let most = table.number(sessions).await;
    drop(used);
    let kept = async {
        while table.number(sessions).await != most - 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, kept).await.expect("those of renewals are kept");
}

/// A machine that is lost in the middle of a transaction holds its locks for less than a minute.
#[tokio::test]
async fn the_server_looks_whether_a_silent_client_is_there() {
    let table = Table::lay().await;
    let shown =
        "SELECT current_setting('tcp_keepalives_idle') || ' ' || current_setting('tcp_keepalives_interval')
        || ' ' || current_setting('tcp_keepalives_count')";
    let text = |rows: Vec<tokio_postgres::Row>| rows[0].get::<_, String>(0);
    let pooled = table.database.asking().connection().await.unwrap();
    assert_eq!(text(pooled.query(shown, &[]).await.unwrap()), "20 5 4");
    let (step, _permit) = table.database.steps.take(&table.database).await.unwrap();
    assert_eq!(text(step.query(shown, &[]).await.unwrap()), "20 5 4");
    let prepared = table.database.prepared(move |client| {
        let rows = tokio::runtime::Handle::current().block_on(client.query_typed(shown, &[]))?;
        assert_eq!(text(rows), "20 5 4");
        Ok(client)
    });
    prepared.await.unwrap();
}

/// A migration changes what a prepared statement gives.
#[tokio::test]
async fn a_statement_whose_plan_is_not_valid_any_more_is_prepared_anew() {
    let table = Table::with(options().patience(Duration::from_secs(2)).connections(1)).await;
    table.run("run", Some("first"), 0).await;
    table.database.run_record(&run_id("run")).await.unwrap();
    table.client.batch_execute("ALTER TABLE runs ALTER COLUMN traceparent TYPE varchar").await.unwrap();
    assert!(table.database.run_record(&run_id("run")).await.unwrap().is_some());
}
