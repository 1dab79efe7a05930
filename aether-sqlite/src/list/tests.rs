//! Which index serves which filter, as SQLite says it.

#![allow(clippy::unwrap_used, reason = "a broken promise panics with what it saw")]

use aether_core::id::RunId;
use aether_core::store::Cursor;
use jiff::Timestamp;

use super::*;
use crate::schema;

/// How SQLite finds the rows of a list of 50.
fn plan(conn: &Connection, filter: &RunFilter) -> String {
    let query = Query::new(filter, true);
    let mut plan =
        conn.prepare(&format!("EXPLAIN QUERY PLAN {}", query.list(&super::row::RUN_IN_RUNS, 50))).unwrap();
    let rows = plan.query_map(params_from_iter(query.values), |row| row.get::<_, String>(3)).unwrap();
    rows.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
}

#[test]
fn no_filter_that_an_index_can_serve_reads_the_whole_table() {
    let conn = Connection::open_in_memory().unwrap();
    schema::migrate(&conn, "test").unwrap();
    let all = RunFilter::new;
    let time = Timestamp::UNIX_EPOCH;
    let acme = || all().label("customer", "acme");
    for (filter, expected) in [
        (
            acme(),
            "label USING PRIMARY KEY (key=? AND value=?); SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)",
        ),
        (
            acme().workflow("w").status(Status::Failed).created_after(time),
            "label USING PRIMARY KEY (key=? AND value=?)",
        ),
        (
            acme().label("tier", "gold"),
            "SEARCH aether_labels EXISTS USING COVERING INDEX aether_labels_run (run_no=? AND key=? AND value=?)",
        ),
        (acme().after(Cursor::new(9)), "label USING PRIMARY KEY (key=? AND value=? AND run_no<?)"),
        (all().status(Status::Failed), "SEARCH runs USING INDEX aether_runs_status (status=?)"),
        (all().open().after(Cursor::new(9)), "MERGE (UNION ALL)"),
        (
            all().open().after(Cursor::new(9)),
            "SEARCH runs USING INDEX aether_runs_status (status=? AND rowid<?)",
        ),
        (all().workflow("w"), "SEARCH runs USING INDEX aether_runs_workflow (workflow=?)"),
        (
            all().workflow("w").open(),
            "SEARCH runs USING INDEX aether_runs_workflow_status (workflow=? AND status=?)",
        ),
        (
            all().workflow("w").created_after(time),
            "SEARCH runs USING INDEX aether_runs_workflow (workflow=?)",
        ),
        (all().parent(RunId::new("p").unwrap()), "SEARCH runs USING INDEX aether_runs_parent (parent=?)"),
        (all().id_prefix("order-"), "COVERING INDEX sqlite_autoindex_aether_runs_1 (id>? AND id<?)"),
        (all().created_after(time), "COVERING INDEX aether_runs_created (created_at>?)"),
        (
            all().created_after(time).created_before(time),
            "COVERING INDEX aether_runs_created (created_at>? AND created_at<?)",
        ),
        (all().after(Cursor::new(9)), "SEARCH runs USING INTEGER PRIMARY KEY (rowid<?)"),
    ] {
        let plan = plan(&conn, &filter);
        assert!(plan.contains(expected) && !plan.contains("SCAN runs"), "{filter:?}: {plan}");
        let sorts = filter.id_prefix.is_some()
            || filter.workflow.is_none() && filter.labels.is_empty() && filter.created_after.is_some();
        assert_eq!(plan.contains("TEMP B-TREE"), sorts, "{filter:?}: {plan}");
    }
    // Every run, and ids that contain a text: from the newest on, until there are enough.
    for filter in [all(), all().id_contains("der"), all().version(2), all().id_prefix("")] {
        let plan = plan(&conn, &filter);
        let (runs, of_each) = plan.split_once("; CORRELATED").unwrap();
        assert_eq!(runs, "SCAN runs", "{filter:?}");
        assert!(!of_each.contains("SCAN"), "{filter:?}: {plan}");
    }
}

#[test]
fn a_prefix_ends_where_the_next_text_begins() {
    assert_eq!(end_of_prefix("order-").as_deref(), Some("order."));
    assert_eq!(end_of_prefix("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
    assert_eq!(end_of_prefix("a\u{10ffff}").as_deref(), Some("b"));
    assert_eq!(end_of_prefix("\u{10ffff}"), None);
}
