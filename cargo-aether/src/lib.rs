//! `cargo aether check`: what helpers hide from workflows, found without running anything.
//!
//! The project is built as `cargo build` does, and the references of all its object files are read as a graph of calls. What
//! a workflow reaches in it, through helpers, dependencies, `Drop`, `Display`, statics and trait objects, is held against a
//! table of names that a replay would not repeat.

mod allow;
mod args;
mod baseline;
mod build;
mod check;
mod config;
mod digest;
mod graph;
mod lines;
mod mir;
mod names;
mod order;
mod parallel;
mod program;
mod report;
mod rules;
mod sorts;
mod steps;
mod toolchain;
mod walk;
mod ways;
mod wrapper;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

/// The program: `cargo aether ..`, or the wrapper of the compiler in a build of its own. `args` begin with its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if std::env::var_os(wrapper::WRAPS).is_some() {
        return wrapper::run(&args);
    }
    // As `cargo aether check`, cargo gives the name of the command, too.
    if args.get(1).is_some_and(|arg| arg == "aether") {
        args.remove(1);
    }
    match args::Cli::try_parse_from(args) {
        Ok(args::Cli { command: args::Command::Check(asked) }) => check::run(&asked),
        Ok(args::Cli { command: args::Command::Schema }) => printed(report::schema()),
        Ok(args::Cli { command: args::Command::Sources }) => printed(Ok(rules::Rules::new().table())),
        Err(error) => {
            let _nobody_may_read_it = error.print();
            ExitCode::from(if error.use_stderr() { 2 } else { 0 })
        }
    }
}

fn printed(text: Result<String, serde_json::Error>) -> ExitCode {
    match text.map_err(std::io::Error::from).and_then(|text| report::print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
