//! The floors of this crate, and those of the simulator inside it; the code map in `ARCHITECTURE.md` is that of the
//! sources.

#[path = "../../tests/layout/floors.rs"]
mod floors;

use floors::{Layout, assert_kept};

#[test]
fn nothing_imports_its_own_floor_or_a_higher_one() {
    let floors: &[&[&str]] =
        &[&["stores", "trap"], &["conformance", "sim"], &["attribute", "fuzz", "recordings"]];
    assert_kept(&Layout { root: "", floors, elsewhere: &[] });
}

#[test]
fn nothing_in_the_simulator_imports_its_own_floor_or_a_higher_one() {
    let floors: &[&[&str]] = &[
        &["report", "tape", "world"],
        &["live", "schedule", "scheduler", "script"],
        &["settings"],
        &["dispatch"],
        &["people"],
        &["processes"],
        &["sweep"],
        &["builder"],
    ];
    assert_kept(&Layout { root: "sim", floors, elsewhere: &[] });
}
