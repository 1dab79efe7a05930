//! PgBouncer in front of a cluster, in transaction mode.
//!
//! Promise: a connection to it reaches another connection of the server with every transaction, as in service. It is gone
//! when it is dropped, or when the test process is.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::guard::Guard;
use crate::programs::{User, free_port, pgbouncer};

/// A running PgBouncer.
#[derive(Debug)]
pub struct PgBouncer {
    folder: PathBuf,
    port: u16,
    user: User,
    server: Mutex<Option<Child>>,
    _guard: Guard,
}

impl PgBouncer {
    /// Starts one with `pool_size` connections to each database of `cluster`.
    pub fn before(cluster: &Cluster, pool_size: usize) -> Self {
        let user = cluster.user();
        let folder = user.folder(false);
        let guard = Guard::over(user, &folder, &folder.join("pid"), "KILL");
        let mut pooler = Self { folder, port: 0, user, server: Mutex::default(), _guard: guard };
        let began = (0..5).any(|_| {
            pooler.port = free_port();
            pooler.configure(cluster, pool_size);
            pooler.try_start()
        });
        assert!(began, "PgBouncer does not start: {}", pooler.log());
        pooler
    }

    /// The URL of a database, through this pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://aether@127.0.0.1:{}/{database}", self.port)
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Kills it and starts it again: every connection through it breaks.
    pub fn restart(&self) {
        self.kill();
        assert!((0..5).any(|_| self.try_start()), "PgBouncer does not start again: {}", self.log());
    }

    fn configure(&self, cluster: &Cluster, pool_size: usize) {
        let (folder, server) = (self.folder.display(), cluster.socket_folder().display());
        let lines = format!(
            "[databases]\n* = host={server} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n\
             default_pool_size = {pool_size}\nmax_client_conn = 2000\npidfile = {folder}/pid\nlogfile = {folder}/log\n\
             log_connections = 0\nlog_disconnections = 0\nserver_login_retry = 1\n",
            cluster.port(),
            self.port,
        );
        self.user.write(&self.folder.join("users"), b"\"aether\" \"\"\n");
        self.user.write(&self.folder.join("config"), lines.as_bytes());
    }

    fn try_start(&self) -> bool {
        // That of a killed one keeps it from starting.
        let _there_may_be_none = std::fs::remove_file(self.folder.join("pid"));
        let mut command = self.user.command(&pgbouncer());
        command.arg("-q").arg(self.folder.join("config"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() && Instant::now() < until {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _it_may_have_ended = child.kill();
        let _it_is_reaped = child.wait();
        false
    }

    fn kill(&self) {
        if let Some(mut server) = self.server.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _it_may_have_ended = server.kill();
            let _it_is_reaped = server.wait();
        }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.kill();
    }
}
