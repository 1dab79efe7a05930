//! Finds the programs of Postgres, and the user that they run as.
//!
//! Promise: a program that is missing is an error that says what to install. Postgres refuses to run as root: then it runs
//! as the user `postgres`.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::statvfs;

/// What a cluster may need, in bytes: its log alone may grow to one gibibyte.
const ROOM: u64 = 4 << 30;

/// The folder that has `initdb` and `postgres`: `AETHER_PG_BIN`, one of `PATH`, or the newest of Debian's.
pub(crate) fn postgres_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("AETHER_PG_BIN") {
        let folder = PathBuf::from(folder);
        assert!(has_postgres(&folder), "AETHER_PG_BIN={} has no initdb and postgres", folder.display());
        return folder;
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    debian.sort_by_key(|folder| std::cmp::Reverse(version_of(folder)));
    path_folders().chain(debian).find(|folder| has_postgres(folder)).expect(
        "there is no Postgres: install the Debian package `postgresql` (scripts/test does), or name the folder of \
         another version's initdb and postgres in AETHER_PG_BIN",
    )
}

/// The program `pgbouncer`.
pub(crate) fn pgbouncer() -> PathBuf {
    let found = path_folders().chain([PathBuf::from("/usr/sbin")]).map(|folder| folder.join("pgbouncer"));
    found
        .into_iter()
        .find(|file| file.exists())
        .expect("there is no PgBouncer: install the Debian package `pgbouncer` (scripts/test does)")
}

fn path_folders() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

fn has_postgres(folder: &Path) -> bool {
    folder.join("initdb").exists() && folder.join("postgres").exists()
}

/// The `15` of `/usr/lib/postgresql/15/bin`.
fn version_of(folder: &Path) -> u32 {
    let version = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Whom the programs run as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User(Option<(u32, u32)>);

impl User {
    /// The user of this process; `postgres` where that is root.
    pub(crate) fn chosen() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").expect("/etc/passwd can be read");
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let ids =
            fields.into_iter().find(|fields| fields[0] == "postgres").map(|fields| (fields[2], fields[3]));
        let (user, group) =
            ids.expect("there is no user `postgres`: install the Debian package `postgresql`");
        Self(Some((user.parse().unwrap(), group.parse().unwrap())))
    }

    /// A command that this user runs, apart from the signals of a terminal.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.process_group(0).current_dir("/");
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }

    /// Makes the user the owner of `path`.
    pub(crate) fn own(self, path: &Path) {
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }

    /// A new folder of this user's. What need not outlive the machine is kept in memory where there is room: to make and
    /// drop databases there costs a disk nothing.
    pub(crate) fn folder(self, durable: bool) -> PathBuf {
        let memory = Path::new("/dev/shm");
        let has_room = || statvfs(memory).is_ok_and(|it| it.f_bavail.saturating_mul(it.f_frsize) >= ROOM);
        let place = if !durable && has_room() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("aether-pg-").tempdir_in(place).unwrap().keep();
        self.own(&folder);
        folder
    }

    /// A new file of this user's that nobody else can read.
    pub(crate) fn write(self, path: &Path, content: &[u8]) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(path, content).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        self.own(path);
    }
}

/// A port that nothing listens on now, and that no client is given: while a server is restarted, its port must not become
/// that of somebody's connection, or of a client that calls itself there. Linux gives clients ports from 32768 on.
pub(crate) fn free_port() -> u16 {
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let drawn = || RandomState::new().build_hasher().finish() % 16_000;
    let ports = (0..1_000).filter_map(|_| u16::try_from(15_000 + drawn()).ok());
    ports.into_iter().find(is_free).expect("one of a thousand ports is free")
}
