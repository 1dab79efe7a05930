//! The layout of this crate: nothing imports what stands above it, no files import each other in a circle, and the code
//! map in `ARCHITECTURE.md` is that of the sources.

#[path = "../../tests/layout/floors.rs"]
mod floors;

use floors::Layout;

const FLOORS: &[&[&str]] = &[
    &["holds", "plain_file"],
    &["model", "recorded_error", "retry_after", "secret", "environment"],
    &["cassette"],
    &["http"],
    &["llm", "resource"],
    &["agent", "defaults"],
];

#[test]
fn no_import_leads_up_or_in_a_circle() {
    floors::assert_kept(&Layout { root: "", floors: FLOORS, elsewhere: &[] });
}
