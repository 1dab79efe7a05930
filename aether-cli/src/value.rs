//! Values that are given as arguments: JSON, `@FILE`, or `-` for stdin.

use std::io::Read as _;

use aether_core::payload::Payload;

use crate::error::CliError;
use crate::exit::Exit;

/// Reads a value.
pub(crate) fn read(text: &str) -> Result<Payload, CliError> {
    let json = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| CliError::new(Exit::NotFound, format!("{path} cannot be read: {error}")))?,
        None if text == "-" => {
            let mut json = String::new();
            std::io::stdin()
                .read_to_string(&mut json)
                .map_err(|error| CliError::new(Exit::Failed, format!("stdin cannot be read: {error}")))?;
            json
        }
        None => text.to_owned(),
    };
    parse(json.trim()).map_err(|error| error.with_help("a text is JSON with quotes around it: '\"yes\"'"))
}

/// Reads JSON text.
pub(crate) fn parse(json: &str) -> Result<Payload, CliError> {
    Payload::from_text(json.to_owned()).map_err(|error| CliError::usage(format!("this is no JSON: {error}")))
}
