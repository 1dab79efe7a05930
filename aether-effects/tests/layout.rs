//! The layout of this crate: nothing imports what stands above it, and no files import each other in a circle.

use std::path::Path;

#[path = "../../tests/layout/floors.rs"]
mod floors;

const FLOORS: &[&[&str]] = &[
    &["model", "recorded_error", "secret", "environment"],
    &["cassette"],
    &["http"],
    &["llm", "resource"],
    &["agent", "defaults"],
];

#[test]
fn no_import_leads_up_or_in_a_circle() {
    let sources = floors::sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let layout = floors::Layout { root: "", floors: FLOORS, elsewhere: &[] };
    let (faults, table) = floors::check(&layout, &sources);
    println!("{table}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
