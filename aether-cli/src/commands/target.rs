//! Where a file is written to.
//!
//! Promise: what is replaced is a file of the same format, or was named with `--force`; never a database, a log of one, a
//! link, or what is no regular file.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::error::CliError;
use crate::exit::Exit;
use crate::session::Session;

/// How much of a file says what it is.
const HEAD: u64 = 512;
/// What lies beside a store and is its own.
const BESIDE: [&str; 5] = ["", "-wal", "-shm", "-journal", "-prepare"];
/// How a database, a write-ahead log and a rollback journal begin.
const OF_DATABASES: [&[u8]; 4] =
    [b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"];

/// Whether the file is stdout.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Refuses a place where a file of this format, as its field `format` says it, must not be written.
pub(crate) fn check(session: &Session, path: &Path, format: &str, force: bool) -> Result<(), CliError> {
    let name = path.display();
    let refused = |what: String, help: &str| Err(CliError::new(Exit::Conflict, what).with_help(help));
    let is_own = session.file().is_some_and(|store| {
        let own = BESIDE.iter().map(|ending| {
            let mut own = real(store).into_os_string();
            own.push(ending);
            PathBuf::from(own)
        });
        own.into_iter().any(|own| own == real(path))
    });
    if is_own {
        return refused(format!("{name} is the store itself, or a part of it"), "name another file");
    }
    let Ok(data) = path.symlink_metadata() else { return Ok(()) };
    if data.is_symlink() {
        return refused(format!("{name} is a link, and would be replaced"), "name the file that it leads to");
    }
    if !data.is_file() {
        let help = "name a file that is not there yet, or `-` for stdout";
        return refused(format!("{name} is there, and is no regular file"), help);
    }
    let head = head_of(path)?;
    if OF_DATABASES.iter().any(|begin| head.starts_with(begin)) {
        return refused(format!("{name} is a database, or a log of one"), "name another file");
    }
    // Whoever makes a name beforehand makes an empty file.
    if force || head.is_empty() || is_of(&head, format) {
        return Ok(());
    }
    refused(
        format!("{name} is there, and does not say that it is an `{format}`: it was not replaced"),
        "name another file, or replace it with `--force`",
    )
}

fn head_of(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.map_err(|error| {
        CliError::new(Exit::Failed, format!("{} cannot be looked at: {error}", path.display()))
            .with_help("name another file")
    })?;
    Ok(head)
}

/// Whether a file begins as one of this format does, however it is laid out.
fn is_of(head: &[u8], format: &str) -> bool {
    let text: String = String::from_utf8_lossy(head).split_whitespace().collect();
    text.starts_with(&format!("{{\"format\":\"{format}\""))
}

/// The path without links in it, also of a file that is not there.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}
