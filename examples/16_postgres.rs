//! An agent on Postgres, whose runs any number of workers on any number of machines share, and whose money moves in
//! transactions of the same database.
//!
//! Run: `DATABASE_URL=postgres://user@host/database cargo run --example 16_postgres --features postgres`. Start it
//! several times at once, and kill one: the others continue its runs.

use aether::prelude::*;

/// The program's own tables, beside those of the engine, which are in a schema of their own.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS accounts(name text PRIMARY KEY, cents int8 NOT NULL);
    CREATE TABLE IF NOT EXISTS transfers(no int8 GENERATED ALWAYS AS IDENTITY, cents int8 NOT NULL);
    INSERT INTO accounts VALUES ('ada', 100000), ('grace', 0) ON CONFLICT DO NOTHING";

/// Move money between two accounts; gives what is left.
#[step(effect = "transaction")]
async fn transfer(cx: &mut StepCx, from: &str, to: &str, cents: i64) -> Result<i64> {
    let left: i64 = cx.postgres(|db| {
        db.execute("UPDATE accounts SET cents = cents + $2 WHERE name = $1", &[&to, &cents])?;
        db.execute("INSERT INTO transfers(cents) VALUES($1)", &[&cents])?;
        let taken = "UPDATE accounts SET cents = cents - $2 WHERE name = $1 RETURNING cents";
        Ok(db.query_one(taken, &[&from, &cents])?.try_get(0)?)
    })?;
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

#[tokio::main]
async fn main() -> Result<()> {
    let url =
        std::env::var("DATABASE_URL").map_err(|_| Failure::new("set DATABASE_URL to a Postgres database"))?;
    let engine = Engine::builder()
        .postgres(url)
        .prepare_postgres(async |db| db.batch_execute(TABLES).await)
        .start()
        .await?;
    let run = engine.start::<pay_back>(3).label("debtor", "ada").await?;
    println!("run {}: {} cents left", run.id(), run.result().await?);
    engine.shutdown().await?;
    Ok(())
}
