//! Counts slots in the store's tables while the storm rages.
//!
//! Promise: slots and limits are of one snapshot, and are read without the store's code. Where a limit was changed between
//! two snapshots, what is over it may have been there before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio_postgres::{Client, IsolationLevel, NoTls};

use crate::limits::{Limits, scope};

/// The places of runs.
pub(crate) type Places = BTreeMap<String, String>;

/// What the tables hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) limits: Limits,
    /// Runs of queues that have begun and are held by a worker: each has a slot.
    pub(crate) held: Places,
    /// Runs of queues that have not ended.
    pub(crate) open: Places,
}

/// How the tables are read.
pub(crate) enum Eyes {
    File(rusqlite::Connection),
    Server(Client),
}

impl Eyes {
    pub(crate) async fn open(address: &str) -> Self {
        if !address.starts_with("postgres:") {
            let file = rusqlite::Connection::open(address).unwrap();
            file.busy_timeout(Duration::from_secs(30)).unwrap();
            return Self::File(file);
        }
        let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self::Server(client)
    }

    pub(crate) async fn look(&mut self) -> Snapshot {
        match self {
            Self::File(file) => look_into_file(file).unwrap(),
            Self::Server(client) => look_at_server(client).await.unwrap(),
        }
    }
}

fn look_into_file(file: &mut rusqlite::Connection) -> rusqlite::Result<Snapshot> {
    let snapshot = file.transaction()?;
    let places = |condition: &str| {
        let sql = format!(
            "SELECT id, queue || CASE queue_key WHEN '' THEN '' ELSE '/' || queue_key END FROM aether_runs
             WHERE queue IS NOT NULL AND status NOT IN ('completed', 'failed', 'rejected', 'cancelled') AND {condition}"
        );
        let mut statement = snapshot.prepare(&sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<rusqlite::Result<Places>>()
    };
    let mut statement = snapshot.prepare("SELECT pattern, kind, n FROM aether_limits")?;
    let limits =
        statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get::<_, u32>(2)?.into())))?;
    let limits = limits.collect::<rusqlite::Result<Limits>>()?;
    let held = places("owner IS NOT NULL AND first_taken_at IS NOT NULL")?;
    Ok(Snapshot { limits, held, open: places("true")? })
}

async fn look_at_server(client: &mut Client) -> Result<Snapshot, tokio_postgres::Error> {
    let snapshot = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let (mut limits, mut held, mut open) = (Limits::new(), Places::new(), Places::new());
    for row in snapshot.query("SELECT pattern, kind, n::int8 FROM aether.limits", &[]).await? {
        let n: i64 = row.get(2);
        limits.insert((row.get(0), row.get(1)), u64::try_from(n).unwrap());
    }
    let sql = "SELECT id, queue || CASE queue_key WHEN '' THEN '' ELSE '/' || queue_key END,
        owner IS NOT NULL AND started_at IS NOT NULL FROM aether.runs WHERE queue IS NOT NULL AND status < 3";
    for row in snapshot.query(sql, &[]).await? {
        let (run, place): (String, String) = (row.get(0), row.get(1));
        if row.get(2) {
            held.insert(run.clone(), place.clone());
        }
        open.insert(run, place);
    }
    Ok(Snapshot { limits, held, open })
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) snapshots: u64,
    /// How many of them could be compared with the one before.
    pub(crate) compared: u64,
    /// How often a limit of turns was used up.
    pub(crate) full: u64,
    pub(crate) violations: Vec<String>,
}

/// Looks until `is_over`. `changes` is odd while a limit is being changed, and rises with every change. `full` is how often
/// a limit of turns was used up by now.
pub(crate) async fn watch(
    mut eyes: Eyes,
    changes: &AtomicU64,
    is_over: &AtomicBool,
    full: &AtomicU64,
) -> Seen {
    let mut seen = Seen::default();
    let mut last: Option<(u64, Snapshot)> = None;
    while !is_over.load(Ordering::SeqCst) {
        let before = changes.load(Ordering::SeqCst);
        let snapshot = eyes.look().await;
        let is_stable = before.is_multiple_of(2) && changes.load(Ordering::SeqCst) == before;
        seen.snapshots += 1;
        if is_stable
            && let Some((at, earlier)) = &last
            && *at == before
        {
            seen.compared += 1;
            compare(earlier, &snapshot, &mut seen);
            full.store(seen.full, Ordering::SeqCst);
        }
        last = is_stable.then_some((before, snapshot));
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    seen
}

fn of_scope<'p>(pattern: &str, wanted: &str, places: &'p Places) -> BTreeSet<&'p String> {
    let is_in = |place: &str| scope(pattern, place).as_deref() == Some(wanted);
    places.iter().filter(|(_, place)| is_in(place)).map(|(run, _)| run).collect()
}

/// What is over a limit was there before.
fn compare(earlier: &Snapshot, now: &Snapshot, seen: &mut Seen) {
    for ((pattern, kind), most) in &now.limits {
        let (then, now) = match kind.as_str() {
            "running" => (&earlier.held, &now.held),
            "open" => (&earlier.open, &now.open),
            _ => continue,
        };
        let scopes: BTreeSet<String> = now.values().filter_map(|place| scope(pattern, place)).collect();
        for scope in scopes {
            let (then, now) = (of_scope(pattern, &scope, then), of_scope(pattern, &scope, now));
            seen.full += u64::from(kind == "running" && now.len() as u64 == *most);
            if now.len() as u64 > *most && !now.is_subset(&then) {
                let text = format!("{} {kind} in {scope}, over {pattern}: {most}: {now:?}", now.len());
                seen.violations.push(text);
            }
        }
    }
}
