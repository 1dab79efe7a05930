//! Where a bench keeps its files.

use std::path::{Path, PathBuf};

use tempfile::{TempDir, tempdir_in};

use super::Result;
use super::options::Options;

/// The folder that `--dir` names, or else the one of the target directory.
pub(crate) fn folder(options: &mut Options) -> Result<PathBuf> {
    options.value("--dir", PathBuf::from(env!("CARGO_TARGET_TMPDIR")))
}

/// A database that is recorded before it is measured. It is deleted in the end.
pub(crate) struct Recorded {
    dir: TempDir,
    /// A folder that `--scratch` names, which may be one in memory, so that recording does not wait for the disk.
    scratch: Option<TempDir>,
}

impl Recorded {
    /// A new folder for it in `--dir`, and one in `--scratch`, if that is given.
    pub(crate) fn new(options: &mut Options) -> Result<Self> {
        let scratch = options.text("--scratch")?.map(tempdir_in).transpose()?;
        Ok(Self { dir: tempdir_in(folder(options)?)?, scratch })
    }

    /// Where to record it.
    pub(crate) fn draft(&self) -> PathBuf {
        self.scratch.as_ref().unwrap_or(&self.dir).path().join("bench.db")
    }

    /// Where it is measured, once it is recorded and closed. It is on the disk then.
    pub(crate) fn settled(&self) -> Result<String> {
        let path = self.dir.path().join("bench.db");
        if self.scratch.is_some() {
            std::fs::copy(self.draft(), &path)?;
            std::fs::remove_file(self.draft())?;
        }
        std::fs::File::open(&path)?.sync_all()?;
        Ok(path.into_os_string().into_string().map_err(|name| format!("{name:?} is not readable"))?)
    }

    /// Where there is room for other files beside it.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }
}

/// Bytes of a database that is closed, with its log if there is one.
pub(crate) fn bytes(database: &Path) -> Result<u64> {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let log = std::fs::metadata(log).map_or(0, |log| log.len());
    Ok(std::fs::metadata(database)?.len() + log)
}
