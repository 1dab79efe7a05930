//! The floors of this crate, and those of the simulator inside it.

#[path = "../../tests/layout/floors.rs"]
mod floors;

use std::path::Path;

use floors::{Layout, check, sources};

/// Asserts that the sources in `folder` keep `layout`, and prints its floors.
fn assert_layout(layout: &Layout, folder: &str) {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let (faults, table) = check(layout, &sources(&src));
    println!("{table}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn nothing_imports_its_own_floor_or_a_higher_one() {
    let floors: &[&[&str]] =
        &[&["stores", "trap"], &["conformance", "sim"], &["attribute", "fuzz", "recordings"]];
    assert_layout(&Layout { root: "", floors, elsewhere: &[] }, "src");
}

#[test]
fn nothing_in_the_simulator_imports_its_own_floor_or_a_higher_one() {
    let floors: &[&[&str]] = &[
        &["report", "tape", "world"],
        &["live", "scheduler", "script"],
        &["settings"],
        &["dispatch"],
        &["people"],
        &["processes"],
        &["sweep"],
        &["builder"],
    ];
    assert_layout(&Layout { root: "sim", floors, elsewhere: &[] }, "src/sim");
}
