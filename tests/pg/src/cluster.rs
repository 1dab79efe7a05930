//! A Postgres cluster of the test's own.
//!
//! Promise: it answers on its port once it is begun, and can be stopped and started again as in service: orderly, as by a
//! crash of the machine's power, or killed. All that was started is gone when the test process is.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::guard::Guard;
use crate::options::ClusterOptions;
use crate::programs::{User, free_port, postgres_folder};

/// How long a server may take to start or to stop.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// `pg_ctl stop -m fast`: transactions are rolled back, connections closed, a checkpoint is written.
    Fast,
    /// `pg_ctl stop -m immediate`: as a crash; the next start recovers.
    Immediate,
    /// `kill -9` of the server's first process.
    Killed,
}

/// A running Postgres with a superuser `aether`, who needs no password.
#[derive(Debug)]
pub struct Cluster {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    user: User,
    server: Mutex<Option<Child>>,
    pub(crate) number: AtomicU64,
    pub(crate) spent: Mutex<Vec<String>>,
    pub(crate) templates: Mutex<HashMap<String, Arc<tokio::sync::OnceCell<()>>>>,
    _guard: Guard,
}

impl Cluster {
    /// The cluster that all tests of this process share. Nobody may stop it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Self::begin(Self::options()))
    }

    /// Options that can be changed before a cluster is begun with them.
    pub fn options() -> ClusterOptions {
        ClusterOptions::default()
    }

    /// Makes a cluster and starts it.
    pub fn begin(options: ClusterOptions) -> Self {
        let bin = options.bin.clone().unwrap_or_else(postgres_folder);
        let user = User::chosen();
        let folder = user.folder(options.durable);
        let data = folder.join("data");
        let guard = Guard::over(user, &folder, &data.join("postmaster.pid"), "QUIT");
        initdb(&bin, user, &data);
        let mut lines = std::fs::read_to_string(data.join("postgresql.conf")).unwrap();
        lines += &options.lines();
        user.write(&data.join("postgresql.conf"), lines.as_bytes());
        for (name, content) in &options.files {
            user.write(&data.join(name), content);
        }
        let mut cluster = Self {
            bin,
            folder,
            port: 0,
            user,
            server: Mutex::default(),
            number: AtomicU64::new(0),
            spent: Mutex::default(),
            templates: Mutex::default(),
            _guard: guard,
        };
        // Somebody may take the port between the look and the start.
        let began = (0..5).any(|_| {
            cluster.port = free_port();
            cluster.try_start().is_ok()
        });
        assert!(began, "Postgres does not start: {}", cluster.log());
        cluster
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its Unix socket.
    pub fn socket_folder(&self) -> &Path {
        &self.folder
    }

    /// Its data folder.
    pub fn data_folder(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of its programs, such as `psql`.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// The pid of the server's first process.
    pub fn pid(&self) -> Option<u32> {
        self.server().as_ref().map(Child::id)
    }

    /// The URL of a database, over TCP.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://aether@127.0.0.1:{}/{database}", self.port)
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Starts it after a stop; waits until it answers.
    pub fn start(&self) {
        // The processes of a killed server need a moment to notice.
        let until = Instant::now() + PATIENCE;
        while let Err(error) = self.try_start() {
            assert!(Instant::now() < until, "{error}: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops it, and waits until its first process is gone. Does nothing when it is stopped.
    pub fn stop(&self, how: Stop) {
        let Some(mut server) = self.server().take() else { return };
        let signal = match how {
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
            Stop::Killed => Signal::KILL,
        };
        kill_process(Pid::from_child(&server), signal).expect("a child that is not reaped can be signalled");
        server.wait().unwrap();
    }

    /// Stops and starts it.
    pub fn restart(&self, how: Stop) {
        self.stop(how);
        self.start();
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_start(&self) -> Result<(), String> {
        let mut server = self.server();
        if server.is_some() {
            return Ok(());
        }
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log")).unwrap();
        let mut command = self.user.command(&self.bin.join("postgres"));
        command.arg("-D").arg(self.data_folder()).args(["-p", &self.port.to_string()]);
        command.arg("-k").arg(&self.folder);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.bin.display()))?;
        self.until_ready(&mut child)?;
        *server = Some(child);
        Ok(())
    }

    /// Waits until the server says in its pid file that it takes connections.
    fn until_ready(&self, child: &mut Child) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = child.try_wait().unwrap() {
                return Err(format!("Postgres ended with {status}"));
            }
            let file = std::fs::read_to_string(self.data_folder().join("postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = file.lines().map(str::trim).collect();
            // The file of a killed server may still be there.
            if lines.first() == Some(&child.id().to_string().as_str()) && lines.get(7) == Some(&"ready") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("Postgres is not ready in time".into())
    }

    pub(crate) fn user(&self) -> User {
        self.user
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop(Stop::Immediate);
    }
}

/// Makes the data folder. Texts are compared as in English where this Postgres can, so that an order which a table must
/// have by bytes is not there by chance.
fn initdb(bin: &Path, user: User, data: &Path) {
    let run = |locale: &[&str]| -> Output {
        let mut command = user.command(&bin.join("initdb"));
        command.arg("-D").arg(data).args(["-A", "trust", "-U", "aether", "-E", "UTF8"]).args(locale);
        command.args(["--locale=C.UTF-8", "--no-sync", "--no-instructions"]);
        command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{}: {error}", bin.display()))
    };
    let mut made = run(&["--locale-provider=icu", "--icu-locale=en"]);
    if String::from_utf8_lossy(&made.stderr).contains("ICU is not supported") {
        made = run(&[]);
    }
    assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
}
