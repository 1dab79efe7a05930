//! The file of a cassette: JSON with one interaction a line.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use aether_core::payload::{Digest, Payload};
use aether_core::recording::{HeadError, check_head, replace_file};
use serde::Deserialize;

use super::error::CassetteError;
use super::interaction::Interaction;
use super::mode::Mode;

/// What the file says it is.
const FORMAT: &str = "aether-cassette";
/// Version that this build writes, and the newest it reads.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct Whole {
    interactions: Vec<Interaction>,
}

/// The interactions in the file at `path`; none where there is no file that could be replayed.
pub(crate) fn read(path: &Path, mode: Mode) -> Result<Vec<Interaction>, CassetteError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && mode != Mode::Replay => return Ok(Vec::new()),
        Err(error) => {
            let help =
                if error.kind() == ErrorKind::NotFound { "; record it first (`Mode::Record`)" } else { "" };
            return Err(CassetteError::File { path: path.into(), reason: format!("{error}{help}") });
        }
    };
    let damaged = |reason: String| CassetteError::Damaged { path: path.into(), reason };
    check_head(&text, FORMAT, VERSION).map_err(|error| match error {
        HeadError::NewerVersion { found } => {
            CassetteError::NewerVersion { path: path.into(), found, supported: VERSION }
        }
        HeadError::Unreadable(reason) => damaged(reason),
        other => damaged(format!("{other:?}")),
    })?;
    let whole: Whole = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    Ok(whole.interactions)
}

/// The text of the file.
fn print(interactions: &[Interaction]) -> String {
    let lines = interactions.iter().map(|interaction| serde_json::to_string(interaction).unwrap_or_default());
    let lines: Vec<_> = lines.collect();
    format!(
        "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"interactions\":[\n{}\n]}}\n",
        lines.join(",\n")
    )
}

/// Adds `new` to the file at `path`; with `anew`, in place of what is there.
pub(crate) fn add(path: &Path, new: &[Interaction], anew: bool) -> Result<(), CassetteError> {
    let _held = lock(path)?;
    let mut interactions = if anew { Vec::new() } else { read(path, Mode::Auto)? };
    interactions.extend_from_slice(new);
    replace_file(path, print(&interactions).as_bytes()).map_err(|error| failed(path, &error))
}

/// Waits until no one else, in other processes too, adds to `path`, and keeps them from it. The lock's file is not
/// beside the cassette, where it would be taken for one.
fn lock(path: &Path) -> Result<File, CassetteError> {
    let failed = |error: &dyn Display| failed(path, &format_args!("it cannot be locked: {error}"));
    let whole = std::path::absolute(path).map_err(|error| failed(&error))?;
    let name = Payload::encode(&whole.to_string_lossy()).and_then(|name| Digest::of(&name));
    let name = name.map_err(|error| failed(&error))?;
    let file = File::create(std::env::temp_dir().join(format!("aether-cassette-{name}.lock")));
    let file = file.map_err(|error| failed(&error))?;
    file.lock().map_err(|error| failed(&error))?;
    Ok(file)
}

fn failed(path: &Path, reason: &dyn Display) -> CassetteError {
    CassetteError::File { path: path.into(), reason: reason.to_string() }
}
