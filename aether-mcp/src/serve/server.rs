//! What a program says about its MCP server, and the two ways to serve: a pipe, and HTTP.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use aether_core::engine::Engine;
use aether_core::workflow::Workflow;
use aether_effects::secret::Secret;
use rmcp::transport::async_rw::AsyncRwTransport;
use schemars::JsonSchema;
use tokio::io::{AsyncRead, AsyncWrite};

use super::exposed::Exposed;
use super::handler::Handler;
use super::http::{HttpServer, ServeError, listen};

/// An MCP server for the workflows of `engine`, none of which is offered before it is named.
///
/// ```
/// # use aether_core::engine::Engine;
/// # use aether_core::workflow::Workflow;
/// # #[allow(non_camel_case_types)]
/// # async fn example<triage>(engine: &Engine) -> Result<(), Box<dyn std::error::Error>>
/// # where triage: Workflow<Input = String> {
/// let server = aether_mcp::serve(engine).workflow::<triage>().http("127.0.0.1:0").await?;
/// println!("{} with token {}", server.url(), server.token());
/// # Ok(()) }
/// ```
pub fn serve(engine: &Engine) -> McpService {
    McpService {
        engine: engine.clone(),
        tools: BTreeMap::new(),
        approvals: true,
        token: None,
        hosts: Vec::new(),
    }
}

/// An MCP server under construction; see [`serve`].
#[must_use = "a server serves by `.stdio().await` or `.http(..).await`"]
pub struct McpService {
    engine: Engine,
    tools: BTreeMap<&'static str, Exposed>,
    approvals: bool,
    token: Option<Secret<String>>,
    hosts: Vec<String>,
}

impl fmt::Debug for McpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpService").field("tools", &self.tools.keys()).finish_non_exhaustive()
    }
}

impl McpService {
    /// Offers a workflow as a tool: under its name, with its doc comment and the schemas of its arguments.
    pub fn workflow<W>(mut self) -> Self
    where
        W: Workflow<Input: JsonSchema + Send>,
    {
        self.tools.insert(W::DEF.name, Exposed::of::<W>());
        self
    }

    /// Does not ask clients for approvals: these are left to whoever decides elsewhere, and a run that waits for one works on
    /// as far as a client sees. Without this, a client that asks its user may approve what its own call wants to do.
    pub fn without_approvals(mut self) -> Self {
        self.approvals = false;
        self
    }

    /// The token that clients over HTTP must send. Without this, a random one: see [`HttpServer::token`].
    pub fn token(mut self, token: impl Into<Secret<String>>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Lets the server listen where other machines reach it, under these names: requests to other names are refused, and so
    /// is every address but loopback without this. The server speaks plain HTTP, so put something that speaks TLS before it.
    pub fn hosts(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.hosts = names.into_iter().map(Into::into).collect();
        self
    }

    fn handler(&self) -> Handler {
        Handler {
            engine: self.engine.clone(),
            tools: Arc::new(self.tools.clone()),
            approvals: self.approvals,
            closing: None,
        }
    }

    /// Serves one client over this process's standard input and output, until the input ends. Runs go on in the engine. The
    /// program must write nothing else to its standard output.
    ///
    /// # Errors
    /// [`ServeError`] where client and server do not agree on a protocol.
    pub async fn stdio(self) -> Result<(), ServeError> {
        self.pipe(tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// Serves one client over any pair of streams, until the input ends.
    ///
    /// # Errors
    /// As [`McpService::stdio`].
    pub async fn pipe(
        self,
        input: impl AsyncRead + Send + Sync + Unpin + 'static,
        output: impl AsyncWrite + Send + Sync + Unpin + 'static,
    ) -> Result<(), ServeError> {
        let transport = AsyncRwTransport::new_server(input, output);
        let disagree = |error: &dyn fmt::Display| ServeError::Disagree { reason: error.to_string() };
        let running =
            rmcp::serve_server(self.handler(), transport).await.map_err(|error| disagree(&error))?;
        running.waiting().await.map(drop).map_err(|error| disagree(&error))
    }

    /// Serves any number of clients over streamable HTTP at `/mcp` of `address`, such as `127.0.0.1:0`, until the returned
    /// value is dropped or closed.
    ///
    /// # Errors
    /// [`ServeError`] where the address is not loopback and no [`hosts`](McpService::hosts) are given, or is taken.
    pub async fn http(self, address: &str) -> Result<HttpServer, ServeError> {
        let wrong = |reason: String| ServeError::Address { address: address.into(), reason };
        let parsed: SocketAddr = address.parse().map_err(|_| {
            wrong("it is no address: give an IP address and a port, such as `127.0.0.1:7777`".into())
        })?;
        if !parsed.ip().is_loopback() && self.hosts.is_empty() {
            return Err(wrong(
                "other machines reach it: name the hosts under which they may, with `hosts(..)`".into(),
            ));
        }
        listen(self.handler(), parsed, self.token, self.hosts).await
    }
}
