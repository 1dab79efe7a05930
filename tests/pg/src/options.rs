//! How a cluster is configured.

use std::path::PathBuf;

/// How a [`Cluster`](crate::Cluster) is configured. Without anything, commits do not wait for the disk.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    pub(crate) bin: Option<PathBuf>,
    pub(crate) durable: bool,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl ClusterOptions {
    /// Commits wait for the disk, as they do by default in service. For tests of durability and for figures.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// The programs of another version of Postgres, instead of `AETHER_PG_BIN`.
    #[must_use]
    pub fn bin(mut self, folder: impl Into<PathBuf>) -> Self {
        self.bin = Some(folder.into());
        self
    }

    /// A line of `postgresql.conf`, such as `("max_connections", "20")`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file of the data folder, such as `pg_hba.conf` or `server.key`, readable by the server alone.
    #[must_use]
    pub fn file(mut self, name: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), content.into()));
        self
    }

    /// Everything that `postgresql.conf` gets.
    pub(crate) fn lines(&self) -> String {
        let mut lines = String::from("listen_addresses = '127.0.0.1'\nmax_connections = 1000\n");
        if !self.durable {
            lines += "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n";
        }
        for (name, value) in &self.settings {
            lines += &format!("{name} = '{}'\n", value.replace('\'', "''"));
        }
        lines
    }
}
