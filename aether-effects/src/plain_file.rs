//! Opening a file that is one.
//!
//! Promise: what is no file is an error at once. To open a pipe would wait, for as long as the program lives, for somebody who
//! writes to it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens the file at `path` for reading.
///
/// # Errors
/// That of the system; and when it is a directory, a pipe, a socket or a device.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is not a file")),
    }
}
