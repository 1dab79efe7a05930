//! What the environment variables of a test set for a sweep: the one case to try, and the name of the test.
//!
//! Promise: a variable that is not understood is an error that says what is right.

use crate::sim::report::error::SimError;
use crate::stores::crash_point::CrashPoint;

/// The boundary that the environment names.
pub(super) fn only_point(variable: &str) -> Result<Option<CrashPoint>, SimError> {
    let Some(named) = std::env::var_os(variable) else { return Ok(None) };
    let point = named.to_string_lossy().parse();
    point
        .map(Some)
        .map_err(|error| SimError::Environment { variable: variable.into(), problem: format!("{error}") })
}

/// The name of the test on this thread, as `cargo test` takes it.
pub(crate) fn test_name() -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" && !name.starts_with("tokio") => name.to_owned(),
        _ => "<the test>".to_owned(),
    }
}

/// The order that the environment names.
pub(super) fn only_order(variable: &str) -> Result<Option<Vec<usize>>, SimError> {
    let Some(named) = std::env::var_os(variable) else { return Ok(None) };
    let named = named.to_string_lossy();
    let choices: Result<Vec<usize>, _> =
        named.split('.').filter(|choice| !choice.is_empty()).map(str::parse).collect();
    choices.map(Some).map_err(|_| SimError::Environment {
        variable: variable.into(),
        problem: format!("`{named}` is no order: write numbers with dots between them, such as 0.2.1"),
    })
}
