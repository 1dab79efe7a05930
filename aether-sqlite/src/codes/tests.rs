//! How SQLite looks for runs of other code, as it says it.

#![allow(clippy::unwrap_used, reason = "a broken promise panics with what it saw")]

use rusqlite::StatementStatus;
use rusqlite::types::Value;

use super::*;
use crate::schema;

fn plan(conn: &Connection, is_due: bool) -> String {
    let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {}", foreign_sql(is_due))).unwrap();
    let values = vec![Value::Null; plan.parameter_count()];
    let rows = plan.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
    rows.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
}

#[test]
fn runs_of_other_code_are_found_by_their_indexes() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn, "test").unwrap();
    for is_due in [true, false] {
        let plan = plan(&conn, is_due);
        let (time, parked) = match is_due {
            true => (" AND wake_at<?", "SEARCH runs USING INDEX aether_runs_parked (wake_at<?)"),
            false => ("", "SCAN runs USING INDEX aether_runs_parked"),
        };
        for step in [
            "SEARCH aether_runs USING INDEX aether_runs_code (code>?)".to_owned(),
            format!("SEARCH runs USING INDEX aether_runs_code (code=?{time})"),
            parked.to_owned(),
        ] {
            assert!(plan.contains(&step), "{step}: {plan}");
        }
        let held = "SEARCH runs USING INDEX aether_runs_held (owner=?";
        assert_eq!(plan.contains(held), is_due, "{plan}");
        assert!(!plan.contains("SCAN aether_runs;") && !plan.contains("SCAN runs;"), "{plan}");
    }
}

#[test]
fn runs_of_known_codes_cost_nothing() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn, "test").unwrap();
    // Of four codes, of which three are known, and none of the fourth is due.
    conn.execute_batch(
        "WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
         INSERT INTO aether_runs(id, workflow, version, status, digest, created_at, updated_at, next, chain, epoch,
             wake_at, code)
         SELECT 'run' || n, 'w', 1, 'waiting', '', 0, 0, 0, x'', 0, CASE n % 4 WHEN 3 THEN NULL ELSE n END, 'code' || (n % 4)
         FROM n",
    )
    .unwrap();
    let mut statement = conn.prepare(&foreign_sql(true)).unwrap();
    let codes = row::json_list(["code0", "code1", "code2", "code9"]);
    assert!(!statement.exists(params![codes, 0, 100, 1_000_000, "[]"]).unwrap());
    let steps = statement.get_status(StatementStatus::VmStep);
    assert!(steps < 1_000, "{steps} steps");
}
