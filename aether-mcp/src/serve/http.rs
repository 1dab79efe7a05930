//! The server over HTTP: a token, a check of the host, and an orderly end.
//!
//! Promise: a client that is slow to say what it wants, or takes nothing of the answer, is cut off. There are never more
//! connections than a limit, and those of strangers make room for others. An answer may take as long as its run.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aether_effects::secret::Secret;
use aether_serve::{Connections, Patient, Stranger};
use axum::Extension;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use futures_util::future::{Either, select};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::handler::Handler;

/// Names under which a server on loopback is reached.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How long a client may take to send the head of a request, also of the next one on a connection, and to take anything of an
/// answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server that is closed waits for what is being answered.
const DRAIN: Duration = Duration::from_secs(5);
/// Most connections at one time.
const CONNECTIONS: usize = 256;
/// Wait where the system gives no connection, such as for want of file descriptors.
const NO_CONNECTION: Duration = Duration::from_millis(200);

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be used.
    #[error("the server cannot listen on `{address}`: {reason}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Client and server do not agree.
    #[error("no agreement with the client: {reason}")]
    Disagree {
        /// What went wrong.
        reason: String,
    },
}

/// A server over HTTP. It ends when this is dropped; the runs go on in the engine.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    token: Secret<String>,
    stop: Option<watch::Sender<()>>,
    serving: JoinHandle<()>,
}

impl HttpServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The token that clients send as `Authorization: Bearer ..`.
    pub fn token(&self) -> &str {
        self.token.expose()
    }

    /// Takes no more requests, and waits until those that are being answered are, for five seconds at most. Calls that wait
    /// for a run get an error: the run goes on, and a call with the same key waits for it again.
    pub async fn close(mut self) {
        drop(self.stop.take());
        let _ended = (&mut self.serving).await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if self.stop.is_some() {
            self.serving.abort();
        }
    }
}

pub(crate) async fn listen(
    mut handler: Handler,
    address: SocketAddr,
    token: Option<Secret<String>>,
    hosts: Vec<String>,
) -> Result<HttpServer, ServeError> {
    let taken =
        |error: io::Error| ServeError::Address { address: address.to_string(), reason: error.to_string() };
    let listener = TcpListener::bind(address).await.map_err(taken)?;
    let address = listener.local_addr().map_err(taken)?;
    let token = token.unwrap_or_else(|| Secret::new(uuid::Uuid::new_v4().simple().to_string()));
    let names = hosts.into_iter().chain(LOOPBACK.map(str::to_owned));
    // A run outlives every connection, so that there is nothing that a session would hold.
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(names)
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .enforce_origin_validation();
    let (stop, stopped) = watch::channel(());
    handler.closing = Some(stopped.clone());
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let digest: Arc<[u8]> = Sha256::digest(token.expose()).as_slice().into();
    let router = Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(digest, authorized));
    let serving = tokio::spawn(serve(listener, router, stopped));
    Ok(HttpServer { address, token, stop: Some(stop), serving })
}

/// Takes connections until it is told to stop, and then waits for those that are open.
async fn serve(listener: TcpListener, router: Router, stopped: watch::Receiver<()>) {
    let mut connections = Connections::new(CONNECTIONS);
    let taking = async {
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                sleep(NO_CONNECTION).await;
                continue;
            };
            let stranger = Stranger::default();
            let talk = converse(stream, router.clone(), stranger.clone(), stopped.clone());
            connections.take(peer.ip(), stranger, talk).await;
        }
    };
    select(pin!(taking), pin!(told(stopped.clone()))).await;
    drop(listener);
    connections.drain(DRAIN).await;
}

/// Waits for the end of the server. Nothing is ever sent: the sender goes.
async fn told(mut stopped: watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}

/// Answers what comes over one connection.
async fn converse(stream: TcpStream, router: Router, stranger: Stranger, stopped: watch::Receiver<()>) {
    let service = TowerToHyperService::new(router.layer(Extension(stranger)));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let stream = TokioIo::new(Patient::new(stream, PATIENCE));
    let mut connection = pin!(server.serve_connection(stream, service));
    // A client that goes away, or that is no client, is nothing to report.
    if let Either::Right(_) = select(connection.as_mut(), pin!(told(stopped))).await {
        connection.as_mut().graceful_shutdown();
        let _gone = connection.await;
    }
}

/// Lets a request through that has the token. Digests are compared, so that the time it takes says nothing about it.
async fn authorized(State(digest): State<Arc<[u8]>>, request: Request, next: Next) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match sent {
        Some((_, token)) if Sha256::digest(token.trim()).as_slice() == &*digest => {
            if let Some(stranger) = request.extensions().get::<Stranger>() {
                stranger.let_in();
            }
            next.run(request).await
        }
        _ => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge, "a token is needed: `Authorization: Bearer ..`")
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    use super::*;

    /// A server without any page; ends when what is returned last is dropped.
    async fn nothing() -> (SocketAddr, JoinHandle<()>, watch::Sender<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (stop, stopped) = watch::channel(());
        (listener.local_addr().unwrap(), tokio::spawn(serve(listener, Router::new(), stopped)), stop)
    }

    async fn answer(address: SocketAddr) -> String {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_request_that_is_never_sent_to_its_end_does_not_hold_up_the_end_of_the_server() {
        let (address, serving, stop) = nothing().await;
        let mut half = TcpStream::connect(address).await.unwrap();
        half.write_all(b"GET /mcp HTTP/1.1\r\n").await.unwrap();
        assert!(answer(address).await.starts_with("HTTP/1.1 404"), "it is at work");
        drop(stop);
        timeout(DRAIN * 4, serving).await.unwrap().unwrap();
        assert_eq!(half.read(&mut [0; 64]).await.unwrap_or(0), 0, "the connection is closed");
    }

    #[tokio::test]
    async fn strangers_who_say_nothing_keep_nobody_out() {
        let (address, serving, stop) = nothing().await;
        let mut strangers = Vec::new();
        for _ in 0..CONNECTIONS + 20 {
            strangers.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(answer(address).await.starts_with("HTTP/1.1 404"));
        assert_eq!(strangers[0].read(&mut [0; 64]).await.unwrap_or(0), 0, "the oldest has made room");
        drop((strangers, stop));
        timeout(DRAIN * 4, serving).await.unwrap().unwrap();
    }
}
