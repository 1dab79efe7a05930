//! The table of the transaction steps, which is in the same database as the runs: a row for each booking that is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use aether::prelude::*;
use aether::sqlite::rusqlite;
use aether_postgres::tokio_postgres::{Client, NoTls};

use super::lives::Address;
use super::stage::Deeds;
use crate::postgres::way::block_on;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS bookings(key TEXT)";
const COUNTS: &str = "SELECT key, count(*) FROM bookings GROUP BY key";

/// Makes the table where it is missing.
pub(super) fn open(address: &Address) -> std::result::Result<(), String> {
    match address {
        Address::File(file) => connect(file).and_then(|db| db.execute(TABLE, [])).map(drop).map_err(text),
        Address::Server(_, url) => block_on(async {
            let db = client(url).await?;
            db.batch_execute(TABLE).await.map_err(text)
        }),
    }
}

/// Inserts a row, in the transaction of the step.
pub(super) fn insert(cx: &StepCx, on_server: bool) -> Result<()> {
    let key = cx.idempotency_key();
    if on_server {
        cx.postgres(|db| db.execute("INSERT INTO bookings(key) VALUES($1)", &[&key.as_str()]))?;
    } else {
        cx.sql(|db| db.execute("INSERT INTO bookings(key) VALUES(?1)", [key.as_str()]))?;
    }
    Ok(())
}

/// Adds what the transaction steps changed: the rows in their table.
pub(super) fn add(address: &Address, deeds: &mut BTreeMap<String, Deeds>) -> std::result::Result<(), String> {
    let rows = match address {
        Address::File(file) => in_file(file).map_err(text)?,
        Address::Server(_, url) => block_on(on_server(url))?,
    };
    for (key, rows) in rows {
        deeds.entry(key).or_default().changes += rows;
    }
    Ok(())
}

fn in_file(file: &Path) -> rusqlite::Result<Vec<(String, u32)>> {
    let db = connect(file)?;
    let mut rows = db.prepare(COUNTS)?;
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

async fn on_server(url: &str) -> std::result::Result<Vec<(String, u32)>, String> {
    let rows = client(url).await?.query_typed(COUNTS, &[]).await.map_err(text)?;
    rows.iter().map(|row| Ok((row.get(0), u32::try_from(row.get::<_, i64>(1)).map_err(text)?))).collect()
}

fn connect(file: &Path) -> rusqlite::Result<rusqlite::Connection> {
    let db = rusqlite::Connection::open(file)?;
    db.busy_timeout(Duration::from_secs(10))?;
    Ok(db)
}

async fn client(url: &str) -> std::result::Result<Client, String> {
    let (client, connection) = aether_postgres::tokio_postgres::connect(url, NoTls).await.map_err(text)?;
    tokio::spawn(connection);
    // The role is named as the schema of the engine, which is where it would look first.
    client.batch_execute("SET search_path = public").await.map_err(text)?;
    Ok(client)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
