//! The server: its options, and how it answers.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::Engine;
use aether_core::step::Tool;
use aether_effects::llm::PriceTable;
use aether_serve::{Connections, Patient, Stranger};
use axum::Router;
use axum::http::request::Parts;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use crate::access::sessions::{NoRandomness, Sessions};
use crate::console::Console;
use crate::permissions::{Actions, Role, User};

/// How long a client may take to send the head of a request, also of the next one on a connection, and to take anything of an
/// answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// No instant is much longer away than that where somebody says `Duration::MAX`.
const LONGEST_PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// Most connections at one time.
const CONNECTIONS: usize = 256;

/// Why a console is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not a loopback address, and the program does not say who may look.
    #[error(
        "{address} can be reached from other machines, and nobody is asked who they are: add `.auth(..)`, or bind a \
         loopback address such as 127.0.0.1:0"
    )]
    NeedsAuth {
        /// The address.
        address: SocketAddr,
    },
    /// Other machines reach it under a name, and that is not known.
    #[error(
        "{address} is every address of this machine: say under which name the console is reached, with `.host(\"agents.example.com\")`"
    )]
    NeedsHost {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be bound.
    #[error("cannot serve the console at {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Connections cannot be taken any more.
    #[error("the console takes no more connections: {0}")]
    Accept(io::Error),
    /// The system has no randomness for tokens.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

type Who = Arc<dyn Fn(&Parts) -> Option<User> + Send + Sync>;
type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// How [`serve`] serves a console.
///
/// ```
/// use aether_web::{Actions, Options};
/// let options = Options::new().bind(([127, 0, 0, 1], 8080)).allow(Actions::ALL).actor("ann@example.com");
/// ```
#[derive(Clone)]
pub struct Options {
    address: SocketAddr,
    actions: Actions,
    role: Role,
    actor: Option<String>,
    hosts: Vec<String>,
    prices: Option<PriceTable>,
    tools: Vec<Tool>,
    auth: Option<Who>,
    patience: Duration,
    announce: Option<Say>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("address", &self.address)
            .field("actions", &self.actions)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            actions: Actions::NONE,
            role: Role::People,
            actor: None,
            hosts: Vec::new(),
            prices: None,
            tools: Vec::new(),
            auth: None,
            patience: PATIENCE,
            announce: None,
        }
    }
}

impl Options {
    /// A free port of 127.0.0.1, read-only, for people.
    pub fn new() -> Self {
        Self::default()
    }

    /// The address to bind; port 0 is a free one. Any other than a loopback address needs [`Options::auth`].
    #[must_use]
    pub fn bind(mut self, address: impl Into<SocketAddr>) -> Self {
        self.address = address.into();
        self
    }

    /// As [`Console::allow`].
    #[must_use]
    pub fn allow(mut self, actions: Actions) -> Self {
        self.actions = self.actions | actions;
        self
    }

    /// As [`Console::role`].
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// As [`Console::actor`].
    #[must_use]
    pub fn actor(mut self, name: impl Into<String>) -> Self {
        self.actor = Some(name.into());
        self
    }

    /// As [`Console::host`].
    #[must_use]
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// As [`Console::prices`].
    #[must_use]
    pub fn prices(mut self, prices: PriceTable) -> Self {
        self.prices = Some(prices);
        self
    }

    /// As [`Console::tool`].
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// As [`Console::auth`].
    #[must_use]
    pub fn auth(mut self, who: impl Fn(&Parts) -> Option<User> + Send + Sync + 'static) -> Self {
        self.auth = Some(Arc::new(who));
        self
    }

    /// Calls `say` with another address that opens the console once, when somebody asks to sign in and no token is left that
    /// was not used: their session has ended, or they have another browser. It is not called for the first one, which is
    /// [`Server::url`]. Without it, [`serve`] prints the address, and a server of [`bind`] writes it to the log, as an event of
    /// `tracing`.
    ///
    /// ```
    /// let options = aether_web::Options::new().announce(|url| eprintln!("open {url}"));
    /// ```
    #[must_use]
    pub fn announce(mut self, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.announce = Some(Arc::new(say));
        self
    }

    /// How long a client may take to send the head of a request, may leave a connection idle, and may take nothing of an
    /// answer, before it is cut off; at most a day. Default 10 s.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience.min(LONGEST_PATIENCE);
        self
    }

    fn check(&self) -> Result<(), ServeError> {
        let address = self.address;
        if address.ip().is_loopback() {
            return Ok(());
        }
        match (&self.auth, address.ip().is_unspecified() && self.hosts.is_empty()) {
            (None, _) => Err(ServeError::NeedsAuth { address }),
            (Some(_), true) => Err(ServeError::NeedsHost { address }),
            (Some(_), false) => Ok(()),
        }
    }

    fn console(self, engine: Engine) -> Console {
        let mut console = Console::new(engine).allow(self.actions).role(self.role);
        console = self.hosts.into_iter().fold(console, Console::host);
        console = match self.address.ip() {
            ip if ip.is_unspecified() => console,
            IpAddr::V6(ip) => console.host(format!("[{ip}]")),
            ip => console.host(ip.to_string()),
        };
        console = self.tools.into_iter().fold(console, Console::tool);
        if let Some(actor) = self.actor {
            console = console.actor(actor);
        }
        if let Some(prices) = self.prices {
            console = console.prices(prices);
        }
        if let Some(auth) = self.auth {
            console = console.auth(move |request| auth(request));
        }
        console
    }
}

/// A console that is bound to its address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    url: String,
    router: Router,
    sessions: Arc<Sessions>,
    patience: Duration,
}

/// Binds the address of `options`.
///
/// ```no_run
/// # async fn example(engine: aether_core::engine::Engine) -> Result<(), aether_web::ServeError> {
/// let server = aether_web::bind(engine, aether_web::Options::new()).await?;
/// println!("open {}", server.url());
/// server.run().await
/// # }
/// ```
///
/// # Errors
/// [`ServeError::NeedsAuth`] for an address that other machines reach and no authentication;
/// [`ServeError::NeedsHost`] for every address of the machine and no name; [`ServeError::Bind`] where the address is taken.
pub async fn bind(engine: Engine, options: Options) -> Result<Server, ServeError> {
    options.check()?;
    let asked = options.address;
    let failed = |error| ServeError::Bind { address: asked, error };
    let listener = TcpListener::bind(asked).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let patience = options.patience;
    let say = options.announce.clone().unwrap_or_else(|| Arc::new(log));
    let console = options.console(engine).announce(move |token| say(&opens(address, token)));
    let url = match console.has_auth() {
        true => format!("http://{address}/"),
        false => opens(address, &console.token()?),
    };
    let sessions = console.sessions();
    Ok(Server { listener, address, url, router: console.router(), sessions, patience })
}

/// The address that opens the console with this token.
fn opens(address: SocketAddr, token: &str) -> String {
    format!("http://{address}/login?token={token}")
}

/// Serves the console of `engine` until the future is dropped, and prints an address that opens it once; another one, when
/// somebody asks to sign in and that was used. Where nobody reads the standard output any more, they are logged.
///
/// # Errors
/// As [`bind`], and [`ServeError::Accept`].
pub async fn serve(engine: Engine, options: Options) -> Result<(), ServeError> {
    let options = match options.announce {
        Some(_) => options,
        None => options.announce(print),
    };
    let server = bind(engine, options).await?;
    print(server.url());
    server.run().await
}

/// Prints where the console is. `println!` would panic where nobody reads the output any more.
fn print(url: &str) {
    if writeln!(io::stdout(), "Console: {url}").is_err() {
        log(url);
    }
}

fn log(url: &str) {
    tracing::info!("the console opens once at {url}");
}

impl Server {
    /// Where it is bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that opens it: once, where it has a token.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Another token that opens one session, at `/login?token=..`. Where the program says who makes a request, nobody needs
    /// one.
    ///
    /// # Errors
    /// [`NoRandomness`] where the system has none.
    pub fn token(&self) -> Result<String, NoRandomness> {
        self.sessions.mint()
    }

    /// Serves until the future is dropped; connections end with it.
    ///
    /// # Errors
    /// [`ServeError::Accept`].
    pub async fn run(self) -> Result<(), ServeError> {
        let mut connections = Connections::new(CONNECTIONS);
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let stranger = Stranger::default();
                    let talk = converse(stream, self.router.clone(), self.patience, stranger.clone());
                    connections.take(peer.ip(), stranger, talk).await;
                }
                // One connection that was lost before it was taken is not the end of the others.
                Err(error) if is_of_one(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::Other || error.raw_os_error().is_some() => {
                    tracing::warn!(%error, "the console takes no connection at the moment");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(error) => return Err(ServeError::Accept(error)),
            }
        }
    }
}

fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn converse(stream: TcpStream, router: Router, patience: Duration, stranger: Stranger) {
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        let router = router.clone();
        request.extensions_mut().insert(stranger.clone());
        async move { Ok::<_, Infallible>(answer(router, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(64 * 1024);
    // A client that goes away, or that is no client, is nothing to report.
    let _gone = server.serve_connection(TokioIo::new(Patient::new(stream, patience)), service).await;
}

async fn answer(router: Router, request: hyper::Request<Incoming>) -> axum::response::Response {
    match router.oneshot(request.map(axum::body::Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_served_only_with_authentication_and_a_name() {
        let checked = |options: Options| options.check().map_err(|error| error.to_string());
        let open: SocketAddr = ([0, 0, 0, 0], 80).into();
        let one: SocketAddr = ([192, 0, 2, 1], 80).into();
        assert!(matches!(Options::new().bind(open).check(), Err(ServeError::NeedsAuth { .. })));
        assert!(matches!(Options::new().bind(one).check(), Err(ServeError::NeedsAuth { .. })));
        let with = Options::new().auth(|_| None);
        assert!(matches!(with.clone().bind(open).check(), Err(ServeError::NeedsHost { .. })));
        assert_eq!(checked(with.clone().bind(open).host("agents.example.com")), Ok(()));
        assert_eq!(checked(with.bind(one)), Ok(()));
        for loopback in ["127.0.0.1:0", "127.8.9.1:1", "[::1]:0"] {
            assert_eq!(checked(Options::new().bind(loopback.parse::<SocketAddr>().unwrap())), Ok(()));
        }
    }
}
