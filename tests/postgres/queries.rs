//! The queries that `docs/postgres.md` shows for the tables of the engine.

use aether::prelude::*;

use super::kit::{Bank, in_time};

/// Waits for a person.
#[workflow]
async fn po_asks(cx: &mut Cx) -> Result<String> {
    Ok(cx.approval("trip").details(&1).await?.granted()?)
}

fn queries() -> Vec<String> {
    let page = std::fs::read_to_string(format!("{}/docs/postgres.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (_, section) = page.split_once("## Reading with SQL").unwrap();
    let (_, block) = section.split_once("```sql\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.split_terminator(";\n").map(str::to_owned).collect()
}

#[tokio::test]
async fn the_queries_of_the_page_find_something() {
    let bank = Bank::new().await;
    let engine = bank.builder().start().await.unwrap();
    let start = engine.start::<po_asks>(()).id("travel-1").label("customer", "acme").queue("trips");
    let run = start.await.unwrap();
    in_time(async {
        while engine.pending(run.id()).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let client = bank.client().await;
    let queries = queries();
    assert_eq!(queries.len(), 7);
    for sql in queries {
        let rows = client.query(sql.as_str(), &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(rows.is_empty(), sql.contains("FROM aether.ledger"), "{sql}");
        if sql.contains("aether.journal") {
            let kinds: Vec<String> = rows.iter().map(|row| row.get("kind")).collect();
            let places: Vec<i64> = rows.iter().map(|row| row.get("position")).collect();
            assert_eq!(places, (0..rows.len() as i64).collect::<Vec<_>>());
            assert!(
                kinds[0] == "run_created" && kinds.contains(&"approval_requested".to_owned()),
                "{kinds:?}"
            );
        }
    }
    engine.shutdown().await.unwrap();
}
