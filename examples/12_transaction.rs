//! Money moves from one account to another in the agent's own file, exactly once, whenever the process dies.
//!
//! Run: `cargo run --example 12_transaction`. It starts itself as a second process, which dies while the money is on
//! its way: what it did is rolled back with the outcome it could not record. The first process then claims the run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aether::prelude::*;
use aether::sqlite::rusqlite::{Connection, Result as SqlResult};

/// Where the process dies, for the demonstration.
struct DiesInTheBody(bool);

/// Move money between two accounts; gives what is left.
#[step(effect = "transaction")]
async fn transfer(cx: &mut StepCx, from: &str, to: &str, cents: i64) -> Result<i64> {
    let left: i64 = cx.sql(|db| {
        db.execute("UPDATE accounts SET cents = cents - ?2 WHERE name = ?1", (from, cents))?;
        db.execute("UPDATE accounts SET cents = cents + ?2 WHERE name = ?1", (to, cents))?;
        db.execute("INSERT INTO transfers(cents) VALUES(?1)", [cents])?;
        db.query_row("SELECT cents FROM accounts WHERE name = ?1", [from], |row| row.get(0))
    })?;
    if cx.dep::<DiesInTheBody>()?.0 {
        die();
    }
    if left < 0 {
        // Rolls back everything above.
        return Err(Failure::permanent(format!("{from} has not enough money")));
    }
    Ok(left)
}

/// Pay back in parts.
#[workflow]
async fn pay_back(cx: &mut Cx, parts: u32) -> Result<i64> {
    let mut left = 0;
    for _ in 0..parts {
        left = transfer(cx, "ada", "grace", 10).await?;
    }
    Ok(left)
}

/// No destructor runs and nothing is flushed, as with `kill -9`.
fn die() -> ! {
    println!("the money is on its way, and the process dies");
    std::process::abort()
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let parts = args.next().and_then(|parts| parts.parse().ok()).unwrap_or(3);
    if let Some(file) = args.next() {
        return run_here(Path::new(&file), parts, args.next().is_some()).await;
    }
    let folder = tempfile::tempdir()?;
    let file: PathBuf = folder.path().join("bank.db");
    let died =
        Command::new(std::env::current_exe()?).arg(parts.to_string()).arg(&file).arg("dies").status()?;
    println!("the other process ended: {died}");
    println!("after its death: {}", accounts(&file)?);
    run_here(&file, parts, false).await
}

async fn run_here(file: &Path, parts: u32, dies: bool) -> Result<()> {
    let engine = Engine::builder().sqlite(file).prepare(open_accounts).provide(DiesInTheBody(dies));
    let engine = engine.lease(Duration::from_millis(500)).start().await?;
    let run = engine.start::<pay_back>(parts).id("debt").await?;
    println!("left: {}", run.result().await?);
    engine.shutdown().await?;
    println!("at the end: {}", accounts(file)?);
    Ok(())
}

/// The tables are the program's own, beside those of the engine. Called before any run is resumed.
fn open_accounts(db: &mut Connection) -> SqlResult<()> {
    let changes = db.transaction()?;
    changes.execute_batch(
        "CREATE TABLE IF NOT EXISTS accounts(name TEXT PRIMARY KEY, cents INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS transfers(no INTEGER PRIMARY KEY, cents INTEGER NOT NULL);
         INSERT OR IGNORE INTO accounts VALUES('ada', 100000), ('grace', 0);",
    )?;
    changes.commit()
}

fn accounts(file: &Path) -> SqlResult<String> {
    let sum = "SELECT (SELECT cents FROM accounts WHERE name = 'grace') || ' cents in '
               || (SELECT count(*) FROM transfers) || ' transfers'";
    Connection::open(file)?.query_row(sum, [], |row| row.get(0))
}
