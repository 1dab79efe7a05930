//! Files that take the place of others: made aside, and named when they are complete.
//!
//! Promise: a file is made under a name that no other one has, for nobody but its owner, and is gone if it never gets its
//! own name; no name is taken from a file unless it is asked for. A path that was made absolute means the same file when the
//! program has changed its directory.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

/// How many links are followed to a file, as the system does.
const LINKS: usize = 40;
/// How many names are tried for one.
const NAMES: u32 = 10_000;

/// The path with this behind its last name.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// The path as it is meant now, whatever directory the program changes to. A name that is no path stays as it is, and so does
/// a URI, but for the relative path in one.
pub(crate) fn from_here(path: &Path) -> PathBuf {
    let name = path.as_os_str().as_encoded_bytes();
    if name.is_empty() || name == b":memory:" {
        return path.to_owned();
    }
    match path.to_str().and_then(|name| name.strip_prefix("file:")) {
        Some(uri) => from_here_in_uri(uri).unwrap_or_else(|| path.to_owned()),
        None => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

/// A URI whose relative path, behind its scheme, begins in the present directory; `None` where it has none.
#[cfg(unix)]
fn from_here_in_uri(uri: &str) -> Option<PathBuf> {
    if uri.is_empty() || uri.starts_with(['/', ':', '?', '#']) {
        return None;
    }
    let here = std::env::current_dir().ok()?;
    Some(format!("file:{}/{uri}", in_uri(&here)).into())
}

#[cfg(not(unix))]
fn from_here_in_uri(_uri: &str) -> Option<PathBuf> {
    None
}

/// A path as it stands in a URI.
pub(crate) fn in_uri(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes
        .map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The file that a connection has open by this path, which may be a URI.
pub(crate) fn file_of(conn: &Connection, path: &Path) -> PathBuf {
    let is_uri = path.as_os_str().as_encoded_bytes().starts_with(b"file:");
    let opened = conn.path().filter(|opened| is_uri && !opened.is_empty());
    opened.map_or_else(|| path.to_owned(), PathBuf::from)
}

/// The file that a path leads to, also where it is not there yet: logs lie beside that, and not beside a link to it.
pub(crate) fn of(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            // It is no link, or not there.
            Err(_) => {
                let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
                return Ok(fs::canonicalize(folder(&path))?.join(name));
            }
        }
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

/// The folder of a file.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes durable what was named in the folder of `path`.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    // Where a folder cannot be opened as a file, the system syncs it by itself.
    File::open(folder(path)).map_or(Ok(()), |folder| folder.sync_all())
}

/// A file that is being made. Dropped without a name, it is removed.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
}

impl Partial {
    /// Makes an empty file beside `path`, which only its owner may read and write.
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        for number in 0..NAMES {
            let path = beside(path, &format!(".partial-{}-{number}", std::process::id()));
            match options.open(&path) {
                Ok(_) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs it, and says how long it is.
    pub(crate) fn sync(&self) -> io::Result<u64> {
        let file = File::options().read(true).write(true).open(&self.path)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }

    /// Gives it a name that no file has.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] where one has it, which stays as it is.
    pub(crate) fn name(self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.path, path) {
            // The other name goes when this is dropped.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(error) => rename_new(&self.path, path).map_err(|new| new.unwrap_or(error))?,
        }
        drop(self);
        sync_folder(path)
    }

    /// Gives it the name of a file, which has it no more: at any moment one of the two has it.
    pub(crate) fn replace(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        sync_folder(path)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        for left in [&self.path, &beside(&self.path, "-journal")] {
            let _it_may_have_another_name_by_now = fs::remove_file(left);
        }
    }
}

/// Renames a file where there are no hard links. `None` where the system cannot do that without replacing.
#[cfg(target_os = "linux")]
fn rename_new(old: &Path, new: &Path) -> Result<(), Option<io::Error>> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let renamed = renameat_with(CWD, old, CWD, new, RenameFlags::NOREPLACE);
    renamed.map_err(|error| (error == rustix::io::Errno::EXIST).then(|| error.into()))
}

#[cfg(not(target_os = "linux"))]
fn rename_new(_old: &Path, _new: &Path) -> Result<(), Option<io::Error>> {
    Err(None)
}

/// Gives the file at `path` the mode of another one.
pub(crate) fn give_mode(path: &Path, of: &fs::Metadata) -> io::Result<()> {
    fs::set_permissions(path, of.permissions())
}

/// Gives the file at `path` the owner and the group of another one, if it has others.
#[cfg(unix)]
pub(crate) fn give_owner(path: &Path, of: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let own = fs::metadata(path)?;
    if (own.uid(), own.gid()) == (of.uid(), of.gid()) {
        return Ok(());
    }
    std::os::unix::fs::chown(path, Some(of.uid()), Some(of.gid())).map_err(|error| {
        let (user, group) = (of.uid(), of.gid());
        let reason = format!(
            "it belongs to user {user} and group {group}, and this user may not give a file to them ({error}): restore as \
             that user, or as root, or make it your own first"
        );
        io::Error::new(error.kind(), reason)
    })
}

/// A file belongs to whoever may write into its folder.
#[cfg(not(unix))]
pub(crate) fn give_owner(_path: &Path, _of: &fs::Metadata) -> io::Result<()> {
    Ok(())
}
