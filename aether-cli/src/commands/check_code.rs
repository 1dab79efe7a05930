//! `check-code`: the program `cargo-aether`, which reads what cargo has built.

use std::io::ErrorKind;
use std::process::Command;

use crate::error::CliError;
use crate::exit::Exit;
use crate::session::Session;

pub(crate) fn check_code(session: &Session, args: &[String]) -> Result<Exit, CliError> {
    let mut check = Command::new("cargo-aether");
    check.arg("check").args(session.screen.is_json.then_some("--json")).args(args);
    let ended = check.status().map_err(|error| match error.kind() {
        ErrorKind::NotFound => CliError::new(Exit::NotFound, "the program `cargo-aether` is not installed")
            .with_help("in the source tree of Aether: `cargo install --path cargo-aether`"),
        _ => CliError::new(Exit::Failed, format!("the program `cargo-aether` cannot be started: {error}")),
    })?;
    match ended.code() {
        Some(0) => Ok(Exit::Done),
        Some(1) => Err(CliError::silent(Exit::Problems)),
        // It has said why.
        _ => Err(CliError::silent(Exit::Failed)),
    }
}
