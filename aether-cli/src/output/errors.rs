//! An error, as `--json` prints it on stderr.

use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Exit;

/// An error. Printed on stderr, in one line.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorReport {
    error: ErrorBody,
}

/// What went wrong.
#[derive(Serialize, JsonSchema)]
struct ErrorBody {
    /// Name of the exit code.
    code: String,
    /// The exit code.
    exit: u8,
    /// What went wrong, and where.
    message: String,
    /// What to do about it.
    help: Option<String>,
}

impl ErrorReport {
    pub(crate) fn new(exit: Exit, message: String, help: Option<String>) -> Self {
        Self { error: ErrorBody { code: exit.as_str().into(), exit: exit.number(), message, help } }
    }
}
