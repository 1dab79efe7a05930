//! Every byte that a store keeps, searched for what is to be hidden; and the same program without encryption, which must
//! show all of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use aether::encryption::Encryption;
use aether::id::RunId;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::event::Event;
use aether::store::{RunFilter, Store};
use aether_pg_tests::Cluster;
use aether_postgres::PostgresStore;

use super::everything::{Desk, MARKERS, mark, provided, run};
use super::ring;

/// In the place of a marker that is not whole.
const CUT: &str = "cut off";

/// The markers in these bytes.
fn markers(bytes: &[u8], found: &mut BTreeSet<String>) {
    let (begin, end) = (b"zq7.", b".7qz");
    for at in 0..bytes.len().saturating_sub(begin.len()) {
        if !bytes[at..].starts_with(begin) {
            continue;
        }
        let rest = &bytes[at + begin.len()..(at + 64).min(bytes.len())];
        let length = rest.windows(end.len()).position(|window| window == end);
        // A marker may lie over the end of a page, or of a shown text.
        let name = length.map_or(CUT, |length| std::str::from_utf8(&rest[..length]).unwrap_or("?"));
        found.insert(name.to_owned());
    }
}

/// The markers in all files below a folder; those that are being replaced are left out.
fn markers_below(folder: &Path, found: &mut BTreeSet<String>) -> u64 {
    let mut searched = 0;
    for entry in std::fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => searched += markers_below(&entry.path(), found),
            Ok(kind) if kind.is_file() => {
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                searched += bytes.len() as u64;
                markers(&bytes, found);
            }
            _ => {}
        }
    }
    searched
}

fn all() -> BTreeSet<String> {
    MARKERS.iter().map(|name| (*name).to_owned()).collect()
}

/// What the engine itself reads of all runs: the markers that have come back, and the kinds of events.
async fn read_back(engine: &Engine, found: &mut BTreeSet<String>, kinds: &mut BTreeSet<String>) {
    for record in engine.runs(RunFilter::default()).await.unwrap() {
        let view = engine.view(&record.id).await.unwrap();
        markers(format!("{view:?}").as_bytes(), found);
        let recording = engine.export(&record.id).await.unwrap();
        markers(format!("{recording:?}").as_bytes(), found);
        for row in engine.ledger(&record.id).await.unwrap() {
            markers(format!("{row:?}").as_bytes(), found);
        }
        let events = recording.runs().first().map(|run| run.events().unwrap());
        kinds.extend(events.unwrap_or_default().iter().map(Event::kind));
    }
}

/// Kinds of events that the program does not write, and what of theirs could be a payload.
const NOT_WRITTEN: &[&str] = &[
    // Older builds wrote it.
    "continued_as_new",
    "checkpoint_saved",
    "run_requeued",
    // Ids, names and times alone.
    "tool_invocation_refused",
    "invocation_abandoned",
    "limit_awaited",
    "timer_fired",
    "version_marked",
    "race_decided",
    "history_measured",
    "outcome_kept",
    "child_released",
    // Their fields are encoded like those of the others: `journal/encoded.rs` knows what stays open, and no other field.
    "run_parked",
    "run_unwinding",
    "plan_generated",
    "invocation_resolved",
    "random_recorded",
    "answer_refused",
    "transaction_rolled_back",
    "state_confirmed",
    "confirmation_decided",
    "code_adopted",
    "result_unreadable",
    "fork_decided",
    "answer_replaced",
    "step_compensated",
];

#[tokio::test(flavor = "multi_thread")]
async fn no_byte_of_the_file_shows_what_was_recorded() {
    for encrypts in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("agent.db")).unwrap());
        let desk = Desk::default();
        let mut builder = provided(Engine::builder().store(store), &desk);
        if encrypts {
            builder = builder.payload_codec(Encryption::new(ring(1)));
        }
        let engine = builder.start().await.unwrap();
        let (mut found, mut read, mut kinds) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let result = run(&engine, &desk, true, async |_| {
            // With the log of the file, which holds what was overwritten.
            assert!(markers_below(folder.path(), &mut found) > 0);
            // While it is there: a run that continues as new begins another journal.
            read_back(&engine, &mut read, &mut kinds).await;
        })
        .await;
        let mut told = BTreeSet::new();
        markers(result.as_bytes(), &mut told);
        assert!(
            told.contains("result") && told.contains("answer") && told.contains("model-answer"),
            "{told:?}"
        );
        engine.shutdown().await.unwrap();
        markers_below(folder.path(), &mut found);
        if encrypts {
            assert_eq!(found, BTreeSet::new(), "these stand in the open");
        } else {
            found.remove(CUT);
            assert_eq!(all().difference(&found).collect::<Vec<_>>(), Vec::<&String>::new(), "not planted");
            assert_eq!(
                found.difference(&all()).collect::<Vec<_>>(),
                Vec::<&String>::new(),
                "not on the list"
            );
        }
        // What stands encrypted is read as it was written.
        for name in
            ["input", "argument", "read-result", "large-result", "panic", "question", "run-error", "verdict"]
        {
            assert!(read.contains(name), "{encrypts}: {name} is not read back: {read:?}");
        }
        let known: BTreeSet<_> =
            kinds.iter().map(String::as_str).chain(NOT_WRITTEN.iter().copied()).collect();
        for (number, name) in Event::KINDS {
            let name = snake_case(name);
            assert!(
                known.contains(name.as_str()),
                "event {number} `{name}`: plant a marker in it, or say why not"
            );
        }
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// All rows of all tables as text: what Postgres has compressed is found there.
async fn markers_in_rows(url: &str, found: &mut BTreeSet<String>) -> usize {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let tables = client
        .query(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
             WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
            &[],
        )
        .await
        .unwrap();
    let mut rows = 0;
    for table in &tables {
        let name: String = table.get(0);
        for row in client.query(&format!("SELECT t::text FROM {name} t"), &[]).await.unwrap() {
            let text: String = row.get(0);
            // Bytes are shown as hexadecimal digits.
            let shown = text.split("\\\\x").skip(1).map(|part| {
                let digits: String = part.chars().take_while(char::is_ascii_hexdigit).collect();
                let bytes = (0..digits.len() / 2)
                    .filter_map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok());
                bytes.collect::<Vec<u8>>()
            });
            shown.for_each(|bytes| markers(&bytes, found));
            markers(text.as_bytes(), found);
            rows += 1;
        }
    }
    drop(client);
    connection.await.unwrap().unwrap();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn no_byte_of_postgres_shows_what_was_recorded() {
    for encrypts in [false, true] {
        let cluster = Cluster::begin(Cluster::options());
        let database = cluster.database().await;
        let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(&database.url()).await.unwrap());
        let desk = Desk::default();
        let mut builder = provided(Engine::builder().store(store), &desk);
        if encrypts {
            builder = builder.payload_codec(Encryption::new(ring(1)));
        }
        let engine = builder.start().await.unwrap();
        let mut found = BTreeSet::new();
        run(&engine, &desk, false, async |_| {
            markers_in_rows(&database.url(), &mut found).await;
        })
        .await;
        engine.shutdown().await.unwrap();
        assert!(markers_in_rows(&database.url(), &mut found).await > 50);
        // The server's log, its write-ahead log, and its temporary files, too.
        cluster.stop(aether_pg_tests::Stop::Fast);
        assert!(markers_below(&cluster.data_folder(), &mut found) > 1 << 20);
        if encrypts {
            assert_eq!(found, BTreeSet::new(), "these stand in the open");
        } else {
            let missing: Vec<_> = all().difference(&found).cloned().collect();
            assert_eq!(missing, ["transaction"], "not planted");
        }
    }
}

#[tokio::test]
async fn a_run_that_is_not_there_is_not_there() {
    let engine = Engine::builder().memory().payload_codec(Encryption::new(ring(1))).start().await.unwrap();
    let none = RunId::new("nobody").unwrap();
    assert!(engine.view(&none).await.unwrap_err().to_string().contains("there is no run `nobody`"));
    assert!(
        engine.cancel(&none, &mark("x"), "ann").await.unwrap_err().to_string().contains("there is no run")
    );
}
