//! What must be true when all is over.
//!
//! Promise: each line of the logs is looked for, and nothing else may be there twice or in both databases.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use aether_core::id::RunId;
use aether_core::store::Store;
use aether_postgres::PostgresStore;
use tokio_postgres::Client;

/// Tables with rows of runs, and what is unique in each, within its bucket.
const TABLES: [(&str, &str); 6] = [
    ("runs", "id"),
    ("journal", "run || ' ' || frame"),
    ("inbox", "run || ' ' || id"),
    ("due", "run"),
    ("blobs", "run || ' ' || hash"),
    ("reservations", "business_key"),
];

/// Appends and messages that are enough.
const APPENDS: usize = 1000;
const CONSUMED: usize = 50;

/// Whether enough has happened by now.
pub(crate) async fn is_enough(home: &Client, logs: &[PathBuf]) -> bool {
    let logs: Vec<_> = logs.iter().map(|log| std::fs::read_to_string(log).unwrap_or_default()).collect();
    let count =
        |what: &str| logs.iter().flat_map(|log| log.lines()).filter(|line| line.starts_with(what)).count();
    let is_moved = moves(home).await > i64::from(crate::BUCKETS);
    is_moved && count("appended ") > APPENDS && count("consumed ") > CONSUMED
}

/// Panics where anything that was acknowledged is missing, or anything is there twice; otherwise says how much was there.
pub(crate) async fn judge(store: &PostgresStore, clients: &[Client; 2], logs: &[String]) -> String {
    nothing_is_in_both(clients).await;
    let journals = journals(store, clients).await;
    let (mut appends, mut sent, mut consumed) = (0, BTreeSet::new(), BTreeSet::new());
    for line in logs.iter().flat_map(|log| log.lines()) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["created", run] => assert!(journals.contains_key(*run), "{run} is lost"),
            ["appended", run, position, epoch] => {
                let (position, epoch): (usize, i64) = (position.parse().unwrap(), epoch.parse().unwrap());
                assert_eq!(journals[*run].get(position), Some(&epoch), "{line}");
                appends += 1;
            }
            ["sent", run, id] => drop(sent.insert((*run, *id))),
            ["consumed", run, id] => assert!(consumed.insert((*run, *id)), "{id} was consumed twice"),
            ["reserved", key, run] => {
                let found = store.reservation(key).await.unwrap();
                assert_eq!(found.map(|found| found.run.to_string()).as_deref(), Some(*run), "{key}");
            }
            ["kept", run] => {
                let found = store.blob(&RunId::new(*run).unwrap(), "hash").await.unwrap();
                assert_eq!(found.as_deref(), Some(run.as_bytes()), "{run}");
            }
            _ => panic!("{line:?}"),
        }
    }
    let there = messages(clients).await;
    for message @ (run, id) in &sent {
        let is_consumed =
            there.get(&(run.to_string(), id.to_string())).unwrap_or_else(|| panic!("{id} is lost"));
        // Consumed by an append whose answer the writer has had, or about to be claimed.
        assert_eq!(*is_consumed, consumed.contains(message), "{id} to {run}");
    }
    assert!(appends > APPENDS && consumed.len() > CONSUMED, "{appends} appends, {} messages", consumed.len());
    let moves = moves(&clients[0]).await;
    assert!(moves > i64::from(crate::BUCKETS), "only {moves} moves: none came back");
    format!("{moves} moves, {} runs, {appends} appends, {} messages", journals.len(), sent.len())
}

async fn column<T: for<'r> tokio_postgres::types::FromSql<'r>>(client: &Client, sql: &str) -> Vec<T> {
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn nothing_is_in_both(clients: &[Client; 2]) {
    for (table, key) in TABLES {
        let sql = format!("SELECT {key} FROM {table}");
        let first: BTreeSet<String> = column(&clients[0], &sql).await.into_iter().collect();
        let second: Vec<String> = column(&clients[1], &sql).await;
        let both: Vec<_> = second.iter().filter(|row| first.contains(*row)).collect();
        assert!(both.is_empty(), "{table}: {both:?} are in both databases");
    }
    for client in clients {
        assert_eq!(column::<i64>(client, "SELECT count(*) FROM parcels").await, [0], "a parcel was left");
    }
}

/// Of each run the epochs of its events, in order.
async fn journals(store: &PostgresStore, clients: &[Client; 2]) -> BTreeMap<String, Vec<i64>> {
    let mut journals = BTreeMap::new();
    for client in clients {
        for run in column::<String>(client, "SELECT id FROM runs").await {
            let frames = store.load(&RunId::new(run.clone()).unwrap(), 0).await.unwrap();
            let mut epochs = Vec::new();
            for frame in frames {
                // Each frame holds one event.
                assert_eq!(frame.position, epochs.len() as u64, "{run}");
                epochs.push(i64::try_from(frame.epoch).unwrap());
            }
            assert!(epochs.is_sorted(), "{run}: {epochs:?}");
            journals.insert(run, epochs);
        }
    }
    journals
}

/// All messages, and whether they were consumed.
async fn messages(clients: &[Client; 2]) -> BTreeMap<(String, String), bool> {
    let mut messages = BTreeMap::new();
    for client in clients {
        for row in client.query("SELECT run, id, consumed IS NOT NULL FROM inbox", &[]).await.unwrap() {
            messages.insert((row.get(0), row.get(1)), row.get(2));
        }
    }
    messages
}

async fn moves(client: &Client) -> i64 {
    column(client, "SELECT coalesce(sum(version), 0)::int8 FROM placement").await[0]
}
