//! The code of README and of the pages in `docs/`, compiled as doctests.
//!
//! Promise: every block of a page that is marked `rust` compiles; one that is not marked `no_run` runs too. Mistakes are
//! marked `rs`: they are no doctests, of which each would be compiled by itself, but are told what their page says in
//! `tests/it/ui.rs`. The blocks of `docs/testing.md` are tests, and run as such in `aether-testing`; those of `docs/rig.md`
//! are compiled in `aether-rig`.
//!
//! ```
//! let listed = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctests.rs"));
//! for folder in ["/docs", "/docs/diagnostics"] {
//!     for page in std::fs::read_dir(format!("{}{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap() {
//!         let name = page.unwrap().file_name().into_string().unwrap();
//!         let Some(page) = name.strip_suffix(".md") else { continue };
//!         let known = ["testing", "rig"].contains(&page) || listed.contains(page);
//!         assert!(known, "{folder}/{name} is not compiled: list it in src/doctests.rs");
//!     }
//! }
//! ```
#![allow(non_snake_case)]

macro_rules! pages {
    ($($module:ident = $path:literal)+) => {
        $(#[doc = include_str!(concat!("../docs/", $path, ".md"))] mod $module {})+
    };
}

macro_rules! codes {
    ($($code:ident)+) => {
        $(#[doc = include_str!(concat!("../docs/diagnostics/", stringify!($code), ".md"))] mod $code {})+
    };
}

#[doc = include_str!("../README.md")]
mod front_page {}

pages! {
    contents = "README"
    console = "console"
    changes = "changes"
    check = "check"
    data_changes = "data-changes"
    encryption = "encryption"
    evidence = "evidence"
    acceptance = "acceptance"
    agents = "agents"
    scaling = "scaling"
    streams = "streams"
    backup = "backup"
    budgets = "budgets"
    deploying = "deploying"
    dependencies = "dependencies"
    determinism = "determinism"
    diagnostics = "diagnostics"
    errors = "errors"
    forks = "forks"
    getting_started = "getting-started"
    guarantees = "guarantees"
    history_format = "history-format"
    http = "http"
    ids = "ids"
    logging = "logging"
    marks = "marks"
    models = "models"
    long_lives = "long-lives"
    cli = "cli"
    mcp = "mcp"
    operating = "operating"
    people = "people"
    performance = "performance"
    postgres = "postgres"
    sql = "sql"
    step_limits = "step-limits"
    queues = "queues"
    schedules = "schedules"
    sweeps = "sweeps"
    telemetry = "telemetry"
    transactions = "transactions"
    versions = "versions"
}

codes! {
    AE0001 AE0002 AE0003 AE0004 AE0005 AE0006 AE0007 AE0008 AE0009 AE0010 AE0011 AE0012 AE0013
    AE0014 AE0015 AE0016 AE0017 AE0018 AE0020 AE0021 AE0022 AE0023 AE0024 AE0025 AE0026 AE0027 AE0028
    AE0029 AE0030 AE0031 AE0032 AE0040
    AE0101 AE0102 AE0103 AE0104 AE0105 AE0106 AE0107 AE0108 AE0109 AE0110 AE0111 AE0112 AE0113
    AE0114 AE0115 AE0116 AE0117 AE0118 AE0119 AE0120 AE0121 AE0122 AE0123 AE0124
    AE0130 AE0131 AE0132 AE0133
}
