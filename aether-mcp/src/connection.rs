//! Connections to servers: made by the first call, shared by all runs, and made anew after one broke.
//!
//! Promise: nothing in here sends a call a second time. Every request over HTTP has a connection of its own, no redirect
//! is followed, and a session that the server forgot is an error of the call.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aether_core::deps::Need;
use aether_core::engine::EffectNeed;
use aether_effects::http::HttpClient;
use aether_effects::recorded_error::chain;
use aether_effects::retry_after::wait;
use jiff::Timestamp;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, ClientConfig,
    ElicitationCapability, ErrorCode, FormElicitationCapability, GetTaskParams, Implementation,
    InputRequests, JsonObject, PaginatedRequestParams, ProtocolVersion, TASKS_EXTENSION_ID, Task,
    TaskPayload, UpdateTaskParams, UrlElicitationCapability,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::NeverRetry;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ErrorData, RoleClient, ServiceError};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::error::{Asked, McpError};
use crate::input::Requests;
use crate::list::ToolList;
use crate::process::{BoundedLines, Process};
use crate::reply::{TaskBegun, TaskState};
use crate::result::ToolResult;
use crate::server::{Endpoint, Place, Server};

/// Longest time to make a connection to an HTTP server; a call that ends here was not sent.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages of one list of tools that are read.
const MAX_PAGES: usize = 100;

/// The MCP servers of a program, by name. Give the engine one with `.provide(..)`; cheap to clone.
///
/// ```
/// use aether_mcp::{Mcp, Server};
/// let mcp = Mcp::new()
///     .server("files", Server::stdio("mcp-server-filesystem").arg("/srv/data"))
///     .server("tracker", Server::http("https://tracker.example.com/mcp").bearer("the token"));
/// ```
#[derive(Clone, Default)]
pub struct Mcp {
    servers: BTreeMap<String, Arc<Known>>,
}

inventory::submit! {
    EffectNeed { effect: "mcp", need: Need::provided::<Mcp>(), remedy: ".provide(Mcp::new().server(..))" }
}

/// A server and the connection to it.
struct Known {
    name: String,
    server: Server,
    open: Mutex<Slot>,
    /// How many connects have failed. Changed under the lock of `open`.
    failures: AtomicU64,
}

#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    /// Why the newest connect failed.
    refusal: Option<Refusal>,
}

type Service = RunningService<RoleClient, ClientConfig>;

struct Connection {
    service: Service,
    process: Option<Process>,
}

/// What a server answered to a call.
pub(crate) enum Answer {
    Complete(ToolResult),
    /// What it asks for, and the words that it wants back.
    Input(Requests, Option<String>),
    Task(TaskBegun),
}

impl Mcp {
    /// No servers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a server. Workflows call it by `name`; a second one of the same name replaces the first.
    pub fn server(mut self, name: impl Into<String>, server: Server) -> Self {
        let name = name.into();
        let known = Known { name: name.clone(), server, open: Mutex::default(), failures: AtomicU64::new(0) };
        self.servers.insert(name, Arc::new(known));
        self
    }

    /// Closes every connection and ends every child process, and waits for these, for some seconds at most. A call in
    /// flight keeps its connection. The next call connects again.
    pub async fn close(&self) {
        for known in self.servers.values() {
            let open = known.open.lock().await.connection.take();
            if let Some(connection) = open.and_then(Arc::into_inner) {
                connection.close().await;
            }
        }
    }

    fn known(&self, asked: &Asked) -> Result<&Known, McpError> {
        self.servers.get(&asked.server).map(|known| &**known).ok_or_else(|| {
            let known: Vec<_> = self.servers.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            McpError::UnknownServer { asked: asked.clone(), known }
        })
    }

    /// Makes one request of a call.
    pub(crate) async fn call(
        &self,
        asked: &Asked,
        at: Timestamp,
        params: CallToolRequestParams,
        limit: Duration,
    ) -> Result<Answer, McpError> {
        let request = async |service: &Service| service.call_tool_once(params).await;
        let unexpected = |reason: String| McpError::Unexpected { asked: asked.clone(), reason };
        match self.ask(asked, at, limit, request).await.map_err(McpError::of_call)? {
            CallToolResponse::Complete(result) => {
                ToolResult::of(result).map(Answer::Complete).map_err(|error| unexpected(error.to_string()))
            }
            CallToolResponse::InputRequired(input) => {
                let requests = requests(input.input_requests.unwrap_or_default());
                let requests = requests.map_err(|error| unexpected(error.to_string()))?;
                Ok(Answer::Input(requests, input.request_state))
            }
            CallToolResponse::Task(begun) => {
                let Task { task_id: id, poll_interval_ms: poll_ms, ttl_ms, .. } = begun.task;
                Ok(Answer::Task(TaskBegun { id, at, poll_ms, ttl_ms }))
            }
            _ => Err(unexpected("it is of a kind that this client does not know".into())),
        }
    }

    /// Asks how far a task is.
    pub(crate) async fn task(
        &self,
        asked: &Asked,
        at: Timestamp,
        id: &str,
        limit: Duration,
    ) -> Result<TaskState, McpError> {
        let params = GetTaskParams::new(id);
        let request = async |service: &Service| match service.peer().get_task(params).await {
            Ok(seen) => Ok(Ok(seen.task)),
            // What the protocol says where there is no such task. Nothing else says so.
            Err(ServiceError::McpError(said)) if said.code == ErrorCode::INVALID_PARAMS => {
                Ok(Err(said_in(&said)))
            }
            Err(error) => Err(error),
        };
        let unexpected = |reason: String| McpError::Unexpected { asked: asked.clone(), reason };
        let seen = match self.ask(asked, at, limit, request).await.map_err(until_authorized)? {
            Ok(seen) => seen,
            Err(message) => return Ok(TaskState::Unknown { message }),
        };
        let Task { task_id, poll_interval_ms: poll_ms, status_message: message, .. } = seen.task;
        if task_id != id {
            return Err(unexpected(format!("it is about task `{task_id}`, and not about `{id}`")));
        }
        Ok(match seen.payload {
            TaskPayload::Working => TaskState::Working { poll_ms, message },
            TaskPayload::InputRequired { input_requests } => {
                let requests = requests(input_requests).map_err(|error| unexpected(error.to_string()))?;
                TaskState::InputRequired { requests, poll_ms }
            }
            TaskPayload::Completed { result } => TaskState::Completed {
                result: serde_json::from_value(Value::Object(result))
                    .and_then(ToolResult::of)
                    .map_err(|error| unexpected(error.to_string()))?,
            },
            TaskPayload::Failed { error } => {
                let said = error.get("message").and_then(Value::as_str);
                let message = said.unwrap_or("it does not say why").to_owned();
                TaskState::Failed { code: error.get("code").and_then(Value::as_i64).unwrap_or(0), message }
            }
            TaskPayload::Cancelled => TaskState::Cancelled,
            _ => return Err(unexpected("the task has a status that this client does not know".into())),
        })
    }

    /// Tells a task what it asked for.
    pub(crate) async fn update_task(
        &self,
        asked: &Asked,
        at: Timestamp,
        params: UpdateTaskParams,
        limit: Duration,
    ) -> Result<(), McpError> {
        let request = async |service: &Service| service.peer().update_task(params).await;
        self.ask(asked, at, limit, request).await.map_err(until_authorized)
    }

    /// Asks the server to end a task.
    pub(crate) async fn cancel_task(
        &self,
        asked: &Asked,
        at: Timestamp,
        id: &str,
        limit: Duration,
    ) -> Result<(), McpError> {
        let params = CancelTaskParams::new(id);
        let request = async |service: &Service| service.peer().cancel_task(params).await;
        self.ask(asked, at, limit, request).await.map_err(until_authorized)
    }

    /// Makes one request, once. `at` is the time by which a date of the server is measured.
    async fn ask<T>(
        &self,
        asked: &Asked,
        at: Timestamp,
        limit: Duration,
        request: impl AsyncFnOnce(&Service) -> Result<T, ServiceError>,
    ) -> Result<T, McpError> {
        let known = self.known(asked)?;
        let connection = known.connected(asked).await?;
        match timeout(limit, request(&connection.service)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(known.failed(&connection, asked, at, error).await),
            Err(_) => {
                known.forget(&connection).await;
                Err(McpError::Timeout { asked: asked.clone(), timeout: limit })
            }
        }
    }

    /// Asks for all tools.
    pub(crate) async fn list(
        &self,
        asked: &Asked,
        at: Timestamp,
        limit: Duration,
    ) -> Result<ToolList, McpError> {
        let bytes = self.known(asked)?.server.max_message;
        let list = self.ask(asked, at, limit, async |service: &Service| pages(service, bytes).await).await?;
        list.map_err(|reason| McpError::Unexpected { asked: asked.clone(), reason })
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.servers.iter().map(|(name, known)| (name, &known.server))).finish()
    }
}

impl Known {
    /// The open connection, or a new one. Whoever waited for a connect that failed gets its error, and makes no other.
    async fn connected(&self, asked: &Asked) -> Result<Arc<Connection>, McpError> {
        let failures = self.failures.load(Ordering::SeqCst);
        let mut open = self.open.lock().await;
        if let Some(connection) = open.connection.as_ref().filter(|connection| connection.is_open()) {
            return Ok(Arc::clone(connection));
        }
        if let Some(refusal) = &open.refusal
            && self.failures.load(Ordering::SeqCst) != failures
        {
            return Err(refusal.clone().about(asked));
        }
        open.connection = None;
        let limit = self.server.connect_timeout;
        let late = |_| Err(Refusal::NoAgreement(format!("no agreement within {limit:?}")));
        match timeout(limit, connect(&self.name, &self.server)).await.unwrap_or_else(late) {
            Ok(connection) => {
                open.refusal = None;
                Ok(Arc::clone(open.connection.insert(Arc::new(connection))))
            }
            Err(refusal) => {
                self.failures.fetch_add(1, Ordering::SeqCst);
                open.refusal = Some(refusal.clone());
                Err(refusal.about(asked))
            }
        }
    }

    /// Lets the next call connect anew. Calls in flight keep the connection.
    async fn forget(&self, connection: &Arc<Connection>) {
        let mut open = self.open.lock().await;
        if open.connection.as_ref().is_some_and(|open| Arc::ptr_eq(open, connection)) {
            open.connection = None;
        }
    }

    /// What an error of a call means.
    async fn failed(
        &self,
        connection: &Arc<Connection>,
        asked: &Asked,
        at: Timestamp,
        error: ServiceError,
    ) -> McpError {
        if !matches!(error, ServiceError::McpError(_)) {
            self.forget(connection).await;
        }
        meaning(asked.clone(), at, &error)
    }
}

impl Connection {
    fn is_open(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    async fn close(mut self) {
        let _ended = self.service.close().await;
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

/// Every page of the list of tools, which all together may have `bytes`; or why it is too long.
async fn pages(service: &Service, bytes: usize) -> Result<Result<ToolList, String>, ServiceError> {
    let (mut tools, mut cursor, mut length) = (Vec::new(), None, 0_usize);
    for _ in 0..MAX_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let page = service.list_tools(Some(page)).await?;
        let of_page = serde_json::to_vec(&page.tools).map_or(usize::MAX, |text| text.len());
        length = length.saturating_add(of_page);
        if length > bytes {
            return Ok(Err(format!("all its pages have more than {bytes} bytes (`Server::max_message`)")));
        }
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(Ok(ToolList::of(tools)));
        }
    }
    Ok(Err(format!("it has more than {MAX_PAGES} pages")))
}

/// What a server asks for, as it is recorded.
fn requests(asked: InputRequests) -> Result<Requests, serde_json::Error> {
    asked.into_iter().map(|(key, request)| Ok((key, serde_json::to_value(request)?))).collect()
}

/// Why there is no connection.
#[derive(Clone)]
enum Refusal {
    /// The settings cannot be used.
    Invalid(String),
    /// The server is not there, or does not agree.
    NoAgreement(String),
    /// The server wants an authorization before it agrees.
    Unauthorized(String),
}

impl Refusal {
    /// The same without this URL, which may hold secrets.
    fn without(self, url: &str) -> Self {
        match self {
            Self::Invalid(reason) => Self::Invalid(without(&reason, url)),
            Self::NoAgreement(reason) => Self::NoAgreement(without(&reason, url)),
            Self::Unauthorized(reason) => Self::Unauthorized(without(&reason, url)),
        }
    }

    fn about(self, asked: &Asked) -> McpError {
        let asked = asked.clone();
        match self {
            Self::Invalid(reason) => McpError::Invalid { asked, reason },
            Self::NoAgreement(reason) => McpError::NotConnected { asked, reason },
            Self::Unauthorized(reason) => McpError::Unauthorized { asked, reason },
        }
    }
}

/// Why the handshake failed.
fn disagreed(error: &ClientInitializeError) -> Refusal {
    let reason = chain(error);
    if error.is_authorization_required() {
        Refusal::Unauthorized(reason)
    } else {
        Refusal::NoAgreement(reason)
    }
}

async fn connect(name: &str, server: &Server) -> Result<Connection, Refusal> {
    match &server.place {
        Place::Stdio(program) => {
            let (process, stdout, stdin) = Process::start(name, program).map_err(|error| {
                let command = program.command.to_string_lossy();
                Refusal::Invalid(format!("the command `{command}` cannot be started: {error}"))
            })?;
            let stdout = BoundedLines::new(stdout, server.max_message);
            let transport =
                AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(server.max_message);
            let service = serve_client_with_lifecycle(client(), transport, lifecycle(server)).await;
            let service = service.map_err(|error| disagreed(&error))?;
            Ok(Connection { service, process: Some(process) })
        }
        Place::Http(endpoint) => {
            let transport = http_transport(endpoint, server.max_message).map_err(Refusal::Invalid)?;
            let service = serve_client_with_lifecycle(client(), transport, lifecycle(server)).await;
            let service = service.map_err(|error| disagreed(&error).without(&endpoint.url))?;
            Ok(Connection { service, process: None })
        }
    }
}

fn http_transport(
    endpoint: &Endpoint,
    max_message: usize,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    reqwest::Url::parse(&endpoint.url).map_err(|error| format!("its URL is not a URL: {error}"))?;
    // A connection that the server closed meanwhile would look like a lost answer: each request has one of its own.
    let connections = HttpClient::connections_builder()?
        .connect_timeout(TCP_TIMEOUT)
        .pool_max_idle_per_host(0)
        .retry(reqwest::retry::never())
        .build()
        .map_err(|error| chain(&error))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.clone());
    config.reinit_on_expired_session = false;
    config.retry_config = Arc::new(NeverRetry::default());
    config.max_sse_event_size = max_message;
    config.max_json_response_size = max_message;
    config.auth_header = endpoint.bearer.as_ref().map(|token| token.expose().clone());
    let mut headers = HashMap::new();
    for (name, value) in &endpoint.headers {
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} is not the name of a header"))?;
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| format!("the value for `{name}` cannot be a header's value"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    config.custom_headers = headers;
    Ok(StreamableHttpClientTransport::with_client(connections, config))
}

/// What this client offers: answers to what a tool asks for, and to wait for tasks. A server of an older protocol asks while
/// a call is open, and is told that nobody answers: a person may take days.
fn client() -> ClientConfig {
    let elicitation = ElicitationCapability::new()
        .with_form(FormElicitationCapability::new().with_schema_validation(true))
        .with_url(UrlElicitationCapability::new());
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(elicitation);
    capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
    ClientConfig::new(capabilities, Implementation::new("aether", env!("CARGO_PKG_VERSION")))
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// Servers of today are asked what they speak; those that do not know the question are of the older protocols.
fn lifecycle(server: &Server) -> ClientLifecycleMode {
    if server.handshake {
        return ClientLifecycleMode::Initialize;
    }
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// What an error of a request says about whether the server has done something.
fn meaning(asked: Asked, at: Timestamp, error: &ServiceError) -> McpError {
    let reason = chain(error);
    match error {
        ServiceError::McpError(said) => {
            let reason = said_in(said);
            if refuses(said.code) {
                McpError::Refused { asked, reason }
            } else {
                McpError::Failed { asked, reason }
            }
        }
        ServiceError::UnexpectedResponse => McpError::Unexpected { asked, reason },
        ServiceError::TransportSend(error) => {
            match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
                Some(error) => http_meaning(asked, at, error),
                None => McpError::Lost { asked, reason },
            }
        }
        _ => McpError::Lost { asked, reason },
    }
}

fn said_in(error: &ErrorData) -> String {
    format!("{} (code {})", error.message, error.code.0)
}

/// What a challenge means for a request about a task: the task runs on, so that it is made again until its time is over.
fn until_authorized(error: McpError) -> McpError {
    match error {
        McpError::Unauthorized { asked, reason } => McpError::NotTaken { asked, reason, retry_after: None },
        error => error,
    }
}

/// Whether a JSON-RPC error of this code says that the server did not take the request.
fn refuses(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::METHOD_NOT_FOUND
            | ErrorCode::INVALID_PARAMS
    )
}

fn http_meaning(asked: Asked, at: Timestamp, error: &StreamableHttpError<reqwest::Error>) -> McpError {
    let reason = chain(error);
    match error {
        StreamableHttpError::Client(error) => {
            let reason = without_url(error);
            if error.is_builder() {
                McpError::Invalid { asked, reason }
            } else if error.is_connect() {
                McpError::NotConnected { asked, reason }
            } else {
                McpError::Lost { asked, reason }
            }
        }
        StreamableHttpError::SessionExpired => McpError::NotTaken { asked, reason, retry_after: None },
        // A proxy says 503 also where the server broke off after it had the call.
        StreamableHttpError::HttpStatus(status)
            if status.status == 429 || (status.status == 503 && !asked.changes_world) =>
        {
            // The transport does not pass on the server's own date.
            let now = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            let retry_after = status.retry_after.as_deref().and_then(|after| wait(after, Some(&now)));
            McpError::NotTaken { asked, reason, retry_after }
        }
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            McpError::Unauthorized { asked, reason }
        }
        _ => McpError::Lost { asked, reason },
    }
}

/// What a transport's error says, with its causes.
fn without_url(error: &reqwest::Error) -> String {
    let text = chain(error);
    error.url().map_or_else(|| text.clone(), |url| without(&text, url.as_str()))
}

/// `text` without this URL, which may hold secrets.
fn without(text: &str, url: &str) -> String {
    let normal = reqwest::Url::parse(url).map_or_else(|_| url.to_owned(), String::from);
    text.replace(&normal, "***").replace(url, "***")
}

#[cfg(test)]
mod tests {
    use aether_core::outcome::{Classify as _, FailureClass};
    use rmcp::transport::streamable_http_client::HttpStatusError;

    use super::*;

    #[test]
    fn a_server_says_how_long_to_wait_in_seconds_or_by_a_date() {
        let at: Timestamp = "1994-11-06T08:49:37Z".parse().unwrap();
        let asked = |changes_world| Asked { server: "bank".into(), tool: Some("pay".into()), changes_world };
        let status = |code, said: Option<&str>| {
            StreamableHttpError::HttpStatus(HttpStatusError::new(code, said.map(str::to_owned)))
        };
        for (said, seconds) in [
            (Some("7"), Some(7)),
            (Some("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60)),
            (Some("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0)),
            (Some("soon"), None),
            (None, None),
        ] {
            for (code, changes_world) in [(429, true), (429, false), (503, false)] {
                let error = http_meaning(asked(changes_world), at, &status(code, said));
                assert_eq!(error.class(), FailureClass::Retryable, "{code}");
                assert_eq!(error.retry_after(), seconds.map(Duration::from_secs), "{said:?}");
            }
            let error = http_meaning(asked(true), at, &status(503, said));
            assert_eq!(error.class(), FailureClass::Unknown, "{said:?}");
        }
    }
}
