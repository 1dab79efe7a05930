//! The layout of this crate: nothing imports what stands above it, no files import each other in a circle, and the code
//! map in `ARCHITECTURE.md` is that of the sources.

#[path = "../../tests/layout/floors.rs"]
mod floors;

use floors::Layout;

const FLOORS: &[&[&str]] = &[
    &["sched", "spent"],
    &["base", "error", "identity", "options", "place", "stuck"],
    &["row", "schema", "worker_locks"],
    &["open", "waits"],
    &["backup", "damage", "inspect", "list", "reader", "renewal", "statements", "streams"],
    &["batch", "checkpoints", "prepare"],
    &[
        "calls",
        "codes",
        "keyed_starts",
        "leases",
        "queues",
        "request",
        "reservations",
        "restore",
        "schedules",
        "step_connection",
    ],
    &["aside", "purge", "sql"],
    &["writer"],
    &["store"],
    &["engine"],
];

/// Operations of a transaction that do not belong to appends.
const ELSEWHERE: &[(&str, &str)] = &[
    ("Batch", "calls"),
    ("Batch", "codes"),
    ("Batch", "keyed_starts"),
    ("Batch", "leases"),
    ("Batch", "purge"),
    ("Batch", "queues"),
    ("Batch", "reservations"),
    ("Batch", "schedules"),
];

#[test]
fn no_import_leads_up_or_in_a_circle() {
    floors::assert_kept(&Layout { root: "", floors: FLOORS, elsewhere: ELSEWHERE });
}
