//! The report file: what it looks like, how it gets into its place, and how to tell whose it is.
//!
//! Promise: the file is there whole or not at all, and it names the invocation that wrote it, so that the file
//! shows whether an interrupted write happened.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use aether::error::FailureClass;
use aether::prelude::*;
use serde::{Deserialize, Serialize};

const MARK: &str = "<!-- written once, by ";
const MARK_END: &str = " -->";

/// Where a report was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its size.
    pub(crate) bytes: u64,
}

/// The text of a report that `key` writes.
pub(crate) fn text(title: &str, body: &str, key: &str) -> String {
    format!("# {}\n\n{}\n\n{MARK}{key}{MARK_END}\n", title.trim(), body.trim())
}

/// The invocation that wrote the file at `path`: `None` when there is no file, and an empty name when there is one
/// without a mark.
pub(crate) fn writer(path: &Path) -> io::Result<Option<String>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&bytes);
    let mark = text.trim_end().rsplit_once(MARK).and_then(|(_, mark)| mark.strip_suffix(MARK_END));
    Ok(Some(mark.unwrap_or_default().to_owned()))
}

/// Puts a report into its place, where no file may be: written beside it, flushed to disk, then given its name in one
/// step that fails if the name is taken, even by a process that was thought to be dead. `attempt` keeps those apart.
pub(crate) fn place(path: &Path, text: &str, attempt: u32) -> Result<Receipt> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{attempt}.part"));
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let named = fs::hard_link(&beside, path);
    let _only_litter = fs::remove_file(&beside);
    named.map_err(|error| Failure::permanent(format_args!("{}: {error}", path.display())))?;
    // From here on the report is in its place: an error no longer says that nothing happened.
    let settled = File::open(folder).and_then(|folder| folder.sync_all()).map_err(Failure::from);
    settled.and_then(|()| receipt(path)).map_err(|failure| failure.classified(FailureClass::Unknown))
}

/// The receipt of a report that is in its place.
pub(crate) fn receipt(path: &Path) -> Result<Receipt> {
    Ok(Receipt { path: path.to_owned(), bytes: fs::metadata(path)?.len() })
}
