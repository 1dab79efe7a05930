//! The disk under the database, which is full for a while.
//!
//! With the right to mount it is a small file system of its own, so that writes fail as they do on a real full disk.
//! Without, the workers' files have a limit, and a ballast takes all of it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use aether::sqlite::rusqlite::{self, Connection};

/// Pages of 4 KiB that the workers' files may have where nothing can be mounted: some, and some for each second.
const PAGES: (u32, u32) = (6_000, 100);

#[derive(Debug)]
pub(super) enum Disk {
    /// A file system of its own.
    Mounted(PathBuf),
    /// A folder, and how many pages the file may have.
    Limited(PathBuf, u32),
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted(_) => f.write_str("a tmpfs of its own that is resized"),
            Self::Limited(_, pages) => write!(f, "a limit of {pages} pages that a ballast fills"),
        }
    }
}

fn mount(options: &str, folder: &Path) -> bool {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Disk {
    pub(super) fn in_folder(folder: &Path, faulty: Duration, mounted: bool) -> Self {
        let own = folder.join("disk");
        std::fs::create_dir(&own).unwrap();
        if mounted && mount("size=4g", &own) {
            return Self::Mounted(own);
        }
        let seconds = u32::try_from(faulty.as_secs()).unwrap();
        Self::Limited(own, PAGES.0 + PAGES.1 * seconds)
    }

    pub(super) fn database(&self) -> PathBuf {
        let (Self::Mounted(folder) | Self::Limited(folder, _)) = self;
        folder.join("agent.db")
    }

    /// The limit for the workers' options.
    pub(super) fn max_pages(&self) -> Option<u32> {
        match self {
            Self::Mounted(_) => None,
            Self::Limited(_, pages) => Some(*pages),
        }
    }

    /// Takes all room that is left. Returns `false` where a worker is just writing.
    pub(super) fn fill(&self) -> bool {
        match self {
            Self::Mounted(folder) => {
                let disk = rustix::fs::statvfs(folder).unwrap();
                let used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize;
                mount(&format!("remount,size={used}"), folder)
            }
            Self::Limited(_, pages) => self.ballast(|conn| {
                let number = |what| conn.pragma_query_value(None, what, |row| row.get::<_, u32>(0));
                let left = (pages + number("freelist_count")? + 8).saturating_sub(number("page_count")?);
                conn.execute("INSERT INTO ballast VALUES(zeroblob(?1))", [i64::from(left) * 4096]).map(drop)
            }),
        }
    }

    /// Gives the room back. Returns `false` where a worker is just writing.
    pub(super) fn empty(&self) -> bool {
        match self {
            Self::Mounted(folder) => mount("remount,size=4g", folder),
            Self::Limited(..) => self.ballast(|conn| conn.execute("DELETE FROM ballast", []).map(drop)),
        }
    }

    fn ballast(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> bool {
        let work = || {
            let conn = Connection::open(self.database())?;
            conn.busy_timeout(Duration::from_millis(50))?;
            conn.execute_batch("CREATE TABLE IF NOT EXISTS ballast(bytes)")?;
            change(&conn)
        };
        work().is_ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Self::Mounted(folder) = self {
            let _left_to_the_namespace = Command::new("umount").arg("-l").arg(folder).status();
        }
    }
}
