//! What the server answers to each request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aether_core::engine::{DecideError, Engine, StartError};
use aether_core::id::RunId;
use aether_core::run::{Observed, RunEnd};
use aether_core::store::RunRecord;
use aether_core::view::pending::Pending;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult, DetailedTask, GetTaskParams,
    GetTaskResult, Implementation, InputRequests, InputRequiredResult, InputResponses, ListToolsResult,
    PaginatedRequestParams, RequestMetaObject, ServerCapabilities, ServerConfig, TaskPayload, Tool,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::exposed::{Exposed, StartRefused};
use super::{questions, runs};
use crate::bodies::KEY_FIELD;

/// How long a call that may become a task is waited for before it does.
const GRACE: Duration = Duration::from_millis(300);
/// How often a run is looked at that a call waits for.
const LOOK: Duration = Duration::from_millis(100);

/// The server's side of every connection.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) engine: Engine,
    pub(crate) tools: Arc<BTreeMap<&'static str, Exposed>>,
    /// Whether a client is asked about approvals.
    pub(crate) approvals: bool,
    /// Ends when the server is to end; `None` where its only client's stream says so.
    pub(crate) closing: Option<watch::Receiver<()>>,
}

/// How far a run is that a client waits for.
enum Stands {
    Ended(RunEnd),
    Asks(Vec<Pending>),
    Works,
}

impl Handler {
    async fn stands(&self, record: &RunRecord) -> Result<Stands, ErrorData> {
        if runs::has_ended(record) {
            let run = self.engine.find(record.id.as_str()).await.map_err(failed)?;
            return Ok(Stands::Ended(run.end().await.map_err(failed)?));
        }
        let mut waits = self.engine.pending(&record.id).await.map_err(failed)?;
        waits.retain(|wait| questions::is_asked(wait, self.approvals));
        Ok(if waits.is_empty() { Stands::Works } else { Stands::Asks(waits) })
    }

    async fn record(&self, id: &str) -> Result<RunRecord, ErrorData> {
        let is_exposed = |tool: &str| self.tools.contains_key(tool);
        let record = runs::find(&self.engine, id, is_exposed).await.map_err(failed)?;
        record.ok_or_else(|| ErrorData::invalid_params(format!("unknown task: {id}"), None))
    }

    /// Starts the run of a call, or finds the one that was started under its key.
    async fn start(
        &self,
        request: CallToolRequestParams,
        meta: &RequestMetaObject,
    ) -> Result<RunId, ErrorData> {
        let Some(exposed) = self.tools.get(request.name.as_ref()) else {
            let known: Vec<_> = self.tools.keys().copied().collect();
            let text = format!("unknown tool: {} (there are: {})", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(text, None));
        };
        let key = match meta.get(KEY_FIELD) {
            None => uuid::Uuid::now_v7().to_string(),
            Some(Value::String(key)) => key.clone(),
            Some(_) => return Err(ErrorData::invalid_params(format!("`{KEY_FIELD}` is not a string"), None)),
        };
        let id = runs::run_id(exposed.workflow, &key);
        exposed.start(&self.engine, request.arguments, id).await.map_err(refused)
    }

    /// Gives the run the answers; unknown keys are left out, as the protocol wants it. Returns the keys of what is decided now.
    async fn answer(&self, run: &RunId, responses: &InputResponses) -> Result<BTreeSet<String>, ErrorData> {
        let mut decided = BTreeSet::new();
        let waits = self.engine.pending(run).await.map_err(failed)?;
        for wait in waits.iter().filter(|wait| questions::is_asked(wait, self.approvals)) {
            let key = questions::key(wait);
            let Some(answer) = responses.get(&key) else { continue };
            match questions::take(&self.engine, wait, answer).await {
                Ok(false) => {}
                // Or somebody else was faster, or the wait is over: the next look says so.
                Ok(true)
                | Err(
                    DecideError::AlreadyDecided { .. }
                    | DecideError::NotWaiting { .. }
                    | DecideError::Changed { .. }
                    | DecideError::Expired { .. }
                    | DecideError::RunEnded { .. },
                ) => drop(decided.insert(key)),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(decided)
    }

    /// Waits until the run has ended or, where the client can be asked, asks something that was not `decided` just now; or for
    /// `limit`.
    async fn wait(
        &self,
        run: &RunId,
        limit: Option<Duration>,
        can_ask: bool,
        decided: &BTreeSet<String>,
    ) -> Result<Stands, ErrorData> {
        let (began, mut changes, mut seen) = (Instant::now(), self.engine.watch(), None);
        loop {
            let record = self.record(run.as_str()).await?;
            // How the run stands follows from its journal, which is long: it is read where something was added to it.
            let newest = Some((record.next, record.status));
            if std::mem::replace(&mut seen, newest) != newest {
                match self.stands(&record).await? {
                    Stands::Ended(end) => return Ok(Stands::Ended(end)),
                    Stands::Asks(waits)
                        if can_ask && waits.iter().any(|wait| !decided.contains(&questions::key(wait))) =>
                    {
                        return Ok(Stands::Asks(waits));
                    }
                    _ => {}
                }
            }
            if limit.is_some_and(|limit| began.elapsed() >= limit) {
                return Ok(Stands::Works);
            }
            until_changed(&mut changes, run).await;
        }
    }

    /// Waits for a run as [`Handler::wait`] does, for as long as there is a client that wants to know.
    async fn wait_for(
        &self,
        run: &RunId,
        limit: Option<Duration>,
        can_ask: bool,
        decided: &BTreeSet<String>,
        given_up: impl Future<Output = ()> + Send,
    ) -> Result<Stands, ErrorData> {
        tokio::select! {
            biased;
            stands = self.wait(run, limit, can_ask, decided) => stands,
            () = given_up => Err(failed("the client gave the request up; its run goes on")),
            // A moment is waited for also then.
            () = self.closed(), if limit.is_none() => Err(failed(format_args!(
                "the server ends, and run `{run}` goes on: a call with the same idempotency key waits for it again"
            ))),
        }
    }

    /// Comes back when the server is to end.
    async fn closed(&self) {
        match self.closing.clone() {
            // Nothing is ever sent: the sender goes.
            Some(mut closing) => while closing.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    }
}

/// Until the run changes in this process, or for a moment: another process may advance it.
async fn until_changed(changes: &mut broadcast::Receiver<Observed>, run: &RunId) {
    let changed = async {
        loop {
            match changes.recv().await {
                Ok(observed) if observed.run != *run => {}
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
            }
        }
    };
    let _either = tokio::time::timeout(LOOK, changed).await;
}

/// The answer to a call whose run asks something.
fn asks(run: &RunId, waits: &[Pending]) -> CallToolResponse {
    InputRequiredResult::new(Some(requests(waits)), Some(run.to_string())).into()
}

fn requests(waits: &[Pending]) -> InputRequests {
    waits.iter().filter_map(|wait| Some((questions::key(wait), questions::request(wait)?))).collect()
}

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn refused(error: StartRefused) -> ErrorData {
    match error {
        StartRefused::Arguments(error) => {
            ErrorData::invalid_params(format!("the arguments do not fit: {error}"), None)
        }
        StartRefused::Start(
            error @ (StartError::IdTaken { .. }
            | StartError::Id(_)
            | StartError::Input { .. }
            | StartError::TooLarge { .. }),
        ) => ErrorData::invalid_params(error.to_string(), None),
        StartRefused::Start(error) => failed(error),
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("aether", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.values().map(|exposed| exposed.tool.clone()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.get(name).map(|exposed| exposed.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let capabilities = context.client_capabilities().unwrap_or_default();
        let is_newer = context.protocol_version().is_some_and(|version| !version.has_initialize());
        let can_ask = is_newer && capabilities.elicitation.is_some();
        let mut decided = BTreeSet::new();
        let run = match request.request_state.clone() {
            Some(state) => {
                let record = self.record(&state).await?;
                let tool = format!("mcp:{}:", request.name);
                if !state.starts_with(&tool) {
                    return Err(ErrorData::invalid_params("requestState is that of another tool", None));
                }
                decided = self.answer(&record.id, &request.input_responses.unwrap_or_default()).await?;
                record.id
            }
            None => self.start(request, &context.meta).await?,
        };
        let limit = capabilities.supports_tasks().then_some(GRACE);
        let (can_ask, given_up) = (can_ask && limit.is_none(), context.ct.cancelled());
        match self.wait_for(&run, limit, can_ask, &decided, given_up).await? {
            Stands::Ended(end) => Ok(runs::result(end).into()),
            Stands::Asks(waits) => Ok(asks(&run, &waits)),
            Stands::Works => {
                let record = self.record(run.as_str()).await?;
                Ok(CreateTaskResult::new(runs::task(&record, None)).into())
            }
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let record = self.record(&request.task_id).await?;
        let message = record.parked.then(|| "the run waits for a program with code that it fits".to_owned());
        let payload = match self.stands(&record).await? {
            Stands::Ended(end) => runs::ended(end),
            Stands::Asks(waits) => TaskPayload::InputRequired { input_requests: requests(&waits) },
            Stands::Works => TaskPayload::Working,
        };
        Ok(GetTaskResult::new(DetailedTask::new(runs::task(&record, message), payload)))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let record = self.record(&request.task_id).await?;
        self.answer(&record.id, &request.input_responses).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let record = self.record(&request.task_id).await?;
        if runs::has_ended(&record) {
            return Ok(());
        }
        let sent = self.engine.cancel(&record.id, "cancelled by the client", questions::ACTOR).await;
        sent.map(drop).map_err(failed)
    }
}
