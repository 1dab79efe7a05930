//! The code of README and of the pages in `docs/`, compiled as doctests.
//!
//! Promise: every Rust block of a page compiles; one that is not marked `no_run` runs too, and one that is marked
//! `compile_fail` is refused. The blocks of `docs/testing.md` are tests, and run as such in `aether-testing`.
//!
//! ```
//! let listed = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctests.rs"));
//! for page in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap() {
//!     let name = page.unwrap().file_name().into_string().unwrap();
//!     let page = name.trim_end_matches(".md");
//!     let known = ["diagnostics", "testing"].contains(&page) || listed.contains(&format!("{page:?}"));
//!     assert!(known, "docs/{name} is not compiled: list it in src/doctests.rs");
//! }
//! ```

/// One module for each page.
macro_rules! pages {
    ($($module:ident = $path:literal)+) => {
        $(#[doc = include_str!(concat!("../docs/", $path, ".md"))] mod $module {})+
    };
}

#[doc = include_str!("../README.md")]
mod front_page {}

pages! {
    contents = "README"
    acceptance = "acceptance"
    determinism = "determinism"
    errors = "errors"
    getting_started = "getting-started"
    guarantees = "guarantees"
    history_format = "history-format"
    operating = "operating"
    people = "people"
    sweeps = "sweeps"
    transactions = "transactions"
}
