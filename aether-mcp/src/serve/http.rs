//! The server over HTTP: a token, a check of the host, and an orderly end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use aether_effects::secret::Secret;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::handler::Handler;

/// Names under which a server on loopback is reached.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

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
    serving: JoinHandle<io::Result<()>>,
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

    /// Takes no more requests, and waits until those that are being answered are. Calls that wait for a run get an error: the
    /// run goes on, and a call with the same key waits for it again.
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
    let (stop, mut stopped) = watch::channel(());
    handler.closing = Some(stopped.clone());
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let digest: Arc<[u8]> = Sha256::digest(token.expose()).as_slice().into();
    let router = axum::Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(digest, authorized));
    let serving = tokio::spawn(async move {
        // Nothing is ever sent: the sender goes.
        let stopped = async move { while stopped.changed().await.is_ok() {} };
        axum::serve(listener, router).with_graceful_shutdown(stopped).await
    });
    Ok(HttpServer { address, token, stop: Some(stop), serving })
}

/// Lets a request through that has the token. Digests are compared, so that the time it takes says nothing about it.
async fn authorized(State(digest): State<Arc<[u8]>>, request: Request, next: Next) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match sent {
        Some((_, token)) if Sha256::digest(token.trim()).as_slice() == &*digest => next.run(request).await,
        _ => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge, "a token is needed: `Authorization: Bearer ..`")
                .into_response()
        }
    }
}
