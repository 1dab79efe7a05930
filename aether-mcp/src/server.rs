//! Where a server is and what it gets: the command of a child process, or a URL.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use aether_effects::secret::Secret;

/// Default time for starting a server and agreeing with it on a protocol.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Default limit of one message of a server, in bytes.
const MAX_MESSAGE: usize = 8 << 20;

/// Where an MCP server is and what it gets.
///
/// ```
/// use aether_mcp::Server;
/// let files = Server::stdio("mcp-server-filesystem").arg("/srv/data");
/// let tracker = Server::http("https://tracker.example.com/mcp").bearer("the token");
/// assert!(!format!("{tracker:?}").contains("the token"));
/// ```
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) place: Place,
    pub(crate) connect_timeout: Duration,
    pub(crate) max_message: usize,
    pub(crate) handshake: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
    Stdio(Program),
    Http(Endpoint),
}

/// A child process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) command: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: BTreeMap<String, Secret<String>>,
    pub(crate) folder: Option<PathBuf>,
}

/// A server that is reached over HTTP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) bearer: Option<Secret<String>>,
    pub(crate) headers: Vec<(String, Secret<String>)>,
}

impl Server {
    /// A server that this program starts as a child process, and speaks to by its standard input and output. It is started
    /// by the first call, and ended when the engine is dropped or [`Mcp::close`](crate::Mcp::close) is called.
    ///
    /// Of the environment it gets `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `LANG`, `LC_ALL`, `TZ` and `TMPDIR`, and what
    /// [`Server::env`] adds. What it writes to its standard error is logged at `DEBUG`.
    pub fn stdio(command: impl Into<OsString>) -> Self {
        Self::at(Place::Stdio(Program { command: command.into(), ..Program::default() }))
    }

    /// A server at `url` that speaks streamable HTTP.
    pub fn http(url: impl Into<String>) -> Self {
        Self::at(Place::Http(Endpoint { url: url.into(), ..Endpoint::default() }))
    }

    fn at(place: Place) -> Self {
        Self { place, connect_timeout: CONNECT_TIMEOUT, max_message: MAX_MESSAGE, handshake: false }
    }

    /// Adds an argument to the command of a child process.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        if let Place::Stdio(program) = &mut self.place {
            program.args.push(arg.into());
        }
        self
    }

    /// Sets a variable in the environment of a child process.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        if let Place::Stdio(program) = &mut self.place {
            program.env.insert(name.into(), value.into());
        }
        self
    }

    /// The folder that a child process starts in. Without it, that of this program.
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        if let Place::Stdio(program) = &mut self.place {
            program.folder = Some(folder.into());
        }
        self
    }

    /// Sends `token` as a bearer token to a server over HTTP. Not recorded.
    pub fn bearer(mut self, token: impl Into<Secret<String>>) -> Self {
        if let Place::Http(endpoint) = &mut self.place {
            endpoint.bearer = Some(token.into());
        }
        self
    }

    /// Sends this header with every request to a server over HTTP. Not recorded.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        if let Place::Http(endpoint) = &mut self.place {
            endpoint.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Time for starting the server and agreeing with it on a protocol. Default 30 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The server is of a protocol before that of 2026-07-28: it is not asked which one it speaks. Such servers answer the
    /// question with an error, and are then spoken to as this says; some child processes do not answer it at all, and without
    /// this their first call waits ten seconds longer.
    pub fn older_protocol(mut self) -> Self {
        self.handshake = true;
        self
    }

    /// Largest message of the server, in bytes. Default 8 MiB. A larger one counts as a lost answer. A list of
    /// tools may have as much over all its pages.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }
}
