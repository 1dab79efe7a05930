//! The layout of this crate: nothing imports what stands above it, and no files import each other in a circle.

use std::path::Path;

#[path = "../../tests/layout/floors.rs"]
mod floors;

const FLOORS: &[&[&str]] = &[
    &["error", "options", "worker_locks"],
    &["row", "schema"],
    &["open", "reader", "statements"],
    &["batch"],
    &["calls", "purge", "step_connection"],
    &["sql", "writer"],
    &["store"],
    &["engine"],
];

/// Operations of a transaction that do not belong to appends.
const ELSEWHERE: &[(&str, &str)] = &[("Batch", "calls"), ("Batch", "purge")];

#[test]
fn no_import_leads_up_or_in_a_circle() {
    let sources = floors::sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let layout = floors::Layout { root: "", floors: FLOORS, elsewhere: ELSEWHERE };
    let (faults, table) = floors::check(&layout, &sources);
    println!("{table}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
