//! What one object file says, before it is put together with the others.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Defined in none of the files: the standard library, libc.
    Elsewhere,
    /// A function.
    Code,
    /// Data that nobody can change.
    Constant,
    /// A static that can change: it lies in a section that can be written.
    Static,
    /// A static of each thread.
    ThreadLocal,
}

/// An object file: one of its own, or a member of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) file: Arc<PathBuf>,
    /// Where it begins in the file, and how long it is.
    pub(crate) range: (u64, u64),
}

/// What one object file has.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) source: Source,
    pub(crate) definitions: Vec<Definition>,
    /// Places in the list of definitions, each with the offset of the reference in its section.
    pub(crate) references: Vec<(usize, u64)>,
}

/// A symbol, or the beginning of a section that has none.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) symbol: Option<Arc<str>>,
    pub(crate) is_global: bool,
    pub(crate) kind: Kind,
    pub(crate) section: u32,
    pub(crate) start: u64,
    /// Its part of the file's references.
    pub(crate) references: Range<usize>,
}

/// Why object files cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{file} cannot be read: {reason}")]
    File { file: String, reason: String },
    #[error(
        "{file} has code and no names: the check reads what functions name, so nothing may strip object files (a wrapper of the compiler, or `-C strip` after ours)"
    )]
    Stripped { file: String },
    #[error("{file} is for {found}, and the check reads ELF for x86-64 and AArch64")]
    Unsupported { file: String, found: String },
}
