//! An engine's workflows as tools: a client of the protocol's own library calls them, over a pipe and over HTTP.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aether::mcp::{Contract, InputAnswer, KEY_FIELD, Mcp, Server, serve};
use aether::people::Waiting;
use aether::prelude::*;
use aether::store::{MemoryStore, Store};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, ClientConfig,
    DetailedTask, ElicitationCapability, ErrorCode, FormElicitationCapability, GetTaskParams, Implementation,
    InputRequest, JsonObject, ProtocolVersion, RequestMetaObject, TASKS_EXTENSION_ID, TaskPayload,
    UpdateTaskParams,
};
use rmcp::service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleClient, ServiceError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Ticket {
    /// What it is about.
    title: String,
    cents: u64,
}

/// Send a letter.
#[step(effect = "tool", approval = "required")]
async fn letter(cx: &mut StepCx, title: &str) -> Result<String> {
    Ok(format!("sent {title} as {}", cx.command_id()))
}

/// Handle a ticket.
#[workflow]
pub(crate) async fn handle_ticket(_cx: &mut Cx, ticket: Ticket) -> Result<String> {
    if ticket.title.is_empty() {
        return Err(Failure::permanent("a ticket without a title"));
    }
    Ok(format!("{} for {}", ticket.title, ticket.cents))
}

/// Shout a word.
#[workflow]
pub(crate) async fn shout(cx: &mut Cx, word: String) -> Result<String> {
    cx.sleep(Duration::from_millis(1)).await;
    Ok(word.to_uppercase())
}

/// Ask how many, and send a letter.
#[workflow]
pub(crate) async fn invite(cx: &mut Cx) -> Result<String> {
    let guests: u32 = cx.ask("How many guests?").await?;
    let sent = letter(cx, &format!("{guests} invitations")).await;
    Ok(match sent {
        Ok(sent) => sent,
        Err(StepError::Rejected(why)) => format!("not sent: {why}"),
        Err(error) => return Err(error.into()),
    })
}

/// Wait for ever.
#[workflow]
pub(crate) async fn forever(cx: &mut Cx) -> Result<()> {
    cx.sleep(Duration::from_secs(1_000_000)).await;
    Ok(())
}

type Client = RunningService<RoleClient, ClientConfig>;

/// What a client says that it can do.
#[derive(Clone, Copy, PartialEq)]
enum Can {
    Nothing,
    Answer,
    Wait,
}

fn client(can: Can) -> ClientConfig {
    let mut capabilities = ClientCapabilities::default();
    if can != Can::Nothing {
        capabilities.elicitation =
            Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
    }
    if can == Can::Wait {
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
    }
    ClientConfig::new(capabilities, Implementation::new("test", "1"))
}

fn newest() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
}

/// A client over a pipe, of a server for all workflows above.
async fn piped(engine: &Engine, can: Can) -> Client {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let service = serve(engine).workflow::<handle_ticket>().workflow::<shout>();
    let service = service.workflow::<invite>().workflow::<forever>();
    let (input, output) = tokio::io::split(theirs);
    tokio::spawn(service.pipe(input, output));
    let (input, output) = tokio::io::split(ours);
    let transport = AsyncRwTransport::new_client(input, output);
    serve_client_with_lifecycle(client(can), transport, newest()).await.unwrap()
}

async fn engine() -> Engine {
    Engine::builder().memory().start().await.unwrap()
}

fn call(tool: &'static str, arguments: &Value, key: Option<&str>) -> CallToolRequestParams {
    let mut params = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
    if let Some(key) = key {
        let mut meta = RequestMetaObject::new();
        meta.insert(KEY_FIELD.into(), key.into());
        params.meta = Some(meta);
    }
    params
}

async fn complete(client: &Client, params: CallToolRequestParams) -> Value {
    match client.call_tool_once(params).await.unwrap() {
        CallToolResponse::Complete(result) => serde_json::to_value(result).unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn refused(client: &Client, params: CallToolRequestParams) -> (ErrorCode, String) {
    match client.call_tool_once(params).await.unwrap_err() {
        ServiceError::McpError(error) => (error.code, error.message.into_owned()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn workflows_are_tools_with_schemas_and_their_values_are_results() {
    let engine = engine().await;
    let client = piped(&engine, Can::Nothing).await;
    let tools = client.list_tools(None).await.unwrap().tools;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["forever", "handle_ticket", "invite", "shout"]);
    assert_eq!(tools[1].description.as_deref(), Some("Handle a ticket."));
    assert_eq!(tools[1].input_schema["required"], json!(["ticket"]));
    assert_eq!(tools[3].input_schema["properties"]["word"]["type"], "string");

    let ticket = json!({ "ticket": { "title": "leak", "cents": 7 } });
    let result = complete(&client, call("handle_ticket", &ticket, None)).await;
    assert_eq!(result["content"][0]["text"], "leak for 7");
    assert_eq!(result["structuredContent"], json!({ "result": "leak for 7" }));
    let result = complete(&client, call("shout", &json!({ "word": "hey" }), None)).await;
    assert_eq!(result["content"][0]["text"], "HEY");
    let failed =
        complete(&client, call("handle_ticket", &json!({ "ticket": { "title": "", "cents": 0 } }), None))
            .await;
    assert_eq!(
        (&failed["isError"], &failed["content"][0]["text"]),
        (&json!(true), &json!("a ticket without a title"))
    );
}

#[tokio::test]
async fn what_cannot_be_called_is_an_error_of_the_protocol_and_starts_nothing() {
    let engine = engine().await;
    let client = piped(&engine, Can::Nothing).await;
    for (params, words) in [
        (call("nothing", &json!({}), None), "unknown tool: nothing"),
        (call("handle_ticket", &json!({ "ticket": { "title": 7 } }), None), "the arguments do not fit"),
        (call("shout", &json!({}), None), "the arguments do not fit"),
    ] {
        let (code, message) = refused(&client, params).await;
        assert!(code == ErrorCode::INVALID_PARAMS && message.contains(words), "{code:?} {message}");
    }
    assert_eq!(engine.count(aether::store::RunFilter::default()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_key_starts_one_run() {
    let engine = engine().await;
    let client = piped(&engine, Can::Nothing).await;
    let ticket = |cents: u64| json!({ "ticket": { "title": "leak", "cents": cents } });
    let first = complete(&client, call("handle_ticket", &ticket(7), Some("k"))).await;
    let again = complete(&client, call("handle_ticket", &ticket(7), Some("k"))).await;
    assert_eq!(first, again);
    let (code, message) = refused(&client, call("handle_ticket", &ticket(8), Some("k"))).await;
    assert!(code == ErrorCode::INVALID_PARAMS && message.contains("another input"), "{message}");
    complete(&client, call("handle_ticket", &ticket(8), Some("l"))).await;
    assert_eq!(engine.count(aether::store::RunFilter::default()).await.unwrap(), 2);
    for key in [json!(7), json!(null), json!(["k"])] {
        let mut params = call("handle_ticket", &ticket(7), Some("k"));
        params.meta.as_mut().unwrap().insert(KEY_FIELD.into(), key);
        let (code, message) = refused(&client, params).await;
        assert!(code == ErrorCode::INVALID_PARAMS && message.contains("not a string"), "{message}");
    }
    assert_eq!(engine.count(aether::store::RunFilter::default()).await.unwrap(), 2);
}

/// Shout by a child, and by one with an id that a call could have.
#[workflow]
pub(crate) async fn by_children(cx: &mut Cx) -> Result<String> {
    let named = cx.child::<shout>("one".to_owned()).id("mcp:shout:named").await?;
    Ok(named + &cx.child::<shout>("two".to_owned()).await?)
}

#[tokio::test]
async fn neither_a_key_nor_a_task_reaches_the_run_of_a_child() {
    let engine = engine().await;
    let client = piped(&engine, Can::Wait).await;
    let parent = engine.start::<by_children>(()).id("mcp:shout:k").await.unwrap();
    assert_eq!(parent.result().await.unwrap(), "ONETWO");
    let runs = engine.store().runs(aether::store::RunFilter::default()).await.unwrap();
    let children: Vec<_> = runs.iter().filter(|run| run.parent.is_some()).map(|run| &run.id).collect();
    assert_eq!(children.len(), 2);
    for child in children {
        let key = child.as_str().strip_prefix("mcp:shout:").unwrap();
        let about = client.peer().get_task(GetTaskParams::new(child.as_str())).await;
        assert!(
            matches!(&about, Err(ServiceError::McpError(error)) if error.code == ErrorCode::INVALID_PARAMS),
            "{about:?}"
        );
        let ended = client.peer().cancel_task(CancelTaskParams::new(child.as_str())).await;
        assert!(ended.is_err(), "{child}");
        if key.contains('/') {
            // As a key it names a run of its own.
            let other = complete(&client, call("shout", &json!({ "word": "hey" }), Some(key))).await;
            assert_eq!(other["content"][0]["text"], "HEY");
        }
    }
}

/// The one request of a round, and its key.
fn asked(requests: &std::collections::BTreeMap<String, InputRequest>) -> (String, Value) {
    assert_eq!(requests.len(), 1, "{requests:?}");
    let (key, request) = requests.iter().next().unwrap();
    (key.clone(), serde_json::to_value(request).unwrap())
}

fn accept(content: &Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[tokio::test]
async fn questions_and_approvals_are_rounds_of_the_call() {
    let engine = engine().await;
    let client = piped(&engine, Can::Answer).await;
    let mut params = call("invite", &json!({}), Some("k"));
    let mut messages = Vec::new();
    let answers = [
        accept(&json!({ "answer": "many" })),
        accept(&json!({ "answer": "12" })),
        accept(&json!({ "decision": "approve" })),
    ];
    for answer in answers {
        let CallToolResponse::InputRequired(round) = client.call_tool_once(params.clone()).await.unwrap()
        else {
            panic!("{messages:?}")
        };
        let (key, request) = asked(&round.input_requests.unwrap());
        messages.push(request["params"]["message"].as_str().unwrap().to_owned());
        params.input_responses = Some([(key, answer)].into());
        params.request_state = round.request_state;
    }
    let result = complete(&client, params.clone()).await;
    assert!(messages[0] == "How many guests?" && messages[1].contains("was not taken"), "{messages:?}");
    assert!(messages[2].contains("`letter`"), "{messages:?}");
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with("sent 12 invitations"), "{result}");
    assert_eq!(engine.count(aether::store::RunFilter::default()).await.unwrap(), 1);
    params.request_state = Some("mcp:shout:k".into());
    assert_eq!(refused(&client, params).await.0, ErrorCode::INVALID_PARAMS);
}

async fn task_of(client: &Client, id: &str) -> DetailedTask {
    client.peer().get_task(GetTaskParams::new(id)).await.unwrap().task
}

async fn begun(client: &Client, params: CallToolRequestParams) -> String {
    match client.call_tool_once(params).await.unwrap() {
        CallToolResponse::Task(task) => task.task.task_id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_run_that_takes_long_is_a_task() {
    let engine = engine().await;
    let client = piped(&engine, Can::Wait).await;
    let quick = complete(&client, call("shout", &json!({ "word": "hey" }), None)).await;
    assert_eq!(quick["content"][0]["text"], "HEY");

    let id = begun(&client, call("invite", &json!({}), Some("k"))).await;
    assert_eq!(
        begun(&client, call("invite", &json!({}), Some("k"))).await,
        id,
        "the same key is the same task"
    );
    for answer in [accept(&json!({ "answer": "3" })), json!({ "action": "decline" })] {
        let requests = loop {
            match task_of(&client, &id).await.payload {
                TaskPayload::InputRequired { input_requests } => break input_requests,
                TaskPayload::Working => tokio::time::sleep(Duration::from_millis(5)).await,
                other => panic!("{other:?}"),
            }
        };
        let key = asked(&requests).0;
        let responses = [("unknown".to_owned(), accept(&json!({}))), (key.clone(), answer)].into();
        client.peer().update_task(UpdateTaskParams::new(id.clone(), responses)).await.unwrap();
        while matches!(task_of(&client, &id).await.payload,
            TaskPayload::InputRequired { input_requests } if input_requests.contains_key(&key))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let result = loop {
        match task_of(&client, &id).await.payload {
            TaskPayload::Completed { result } => break result,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with("not sent"), "{result:?}");
}

#[tokio::test]
async fn a_task_is_cancelled_and_what_is_no_task_is_unknown() {
    let engine = engine().await;
    let client = piped(&engine, Can::Wait).await;
    let id = begun(&client, call("forever", &json!({}), None)).await;
    client.peer().cancel_task(CancelTaskParams::new(id.clone())).await.unwrap();
    while !matches!(task_of(&client, &id).await.payload, TaskPayload::Cancelled) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.peer().cancel_task(CancelTaskParams::new(id)).await.unwrap();

    engine.start::<shout>("hey".to_owned()).id("private").await.unwrap();
    for id in ["private", "mcp:shout:nothing", "mcp:other:k", ""] {
        let error = client.peer().get_task(GetTaskParams::new(id)).await.unwrap_err();
        assert!(
            matches!(&error, ServiceError::McpError(error) if error.code == ErrorCode::INVALID_PARAMS),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn over_http_a_token_is_needed_and_loopback_is_all_there_is() {
    let engine = engine().await;
    let server = serve(&engine).workflow::<shout>().http("127.0.0.1:0").await.unwrap();
    assert!(server.address().ip().is_loopback() && server.token().len() >= 32);
    let web = aether::http::HttpClient::connections_builder().unwrap().build().unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let post = |token: &str, host: Option<&str>, origin: Option<&str>| {
        let mut post = web.post(server.url()).header("accept", "application/json, text/event-stream");
        post = post.header("content-type", "application/json").body(body.clone());
        if !token.is_empty() {
            post = post.bearer_auth(token);
        }
        for (name, value) in [("host", host), ("origin", origin)] {
            if let Some(value) = value {
                post = post.header(name, value);
            }
        }
        post.send()
    };
    let right = server.token().to_owned();
    for (token, host, origin, status) in [
        ("", None, None, 401),
        ("wrong", None, None, 401),
        (right.as_str(), Some("evil.example"), None, 403),
        (right.as_str(), None, Some("https://evil.example"), 403),
    ] {
        assert_eq!(
            post(token, host, origin).await.unwrap().status().as_u16(),
            status,
            "{token} {host:?} {origin:?}"
        );
    }
    assert!(!format!("{server:?}").contains(&right));
    for address in ["0.0.0.0:0", "nonsense"] {
        assert!(serve(&engine).workflow::<shout>().http(address).await.is_err(), "{address}");
    }
    server.close().await;
}

/// What the run of another engine makes of a tool.
#[workflow]
pub(crate) async fn delegate(cx: &mut Cx, tool: String) -> Result<String> {
    Ok(cx.mcp("agents").tool(tool).args(&json!({})).contract(Contract::tool()).call().await?.text())
}

#[tokio::test]
async fn a_wrong_token_is_refused_before_the_handshake_and_is_not_tried_again() {
    let serving = serve(&engine().await).workflow::<invite>().http("127.0.0.1:0").await.unwrap();
    let mcp = Mcp::new().server("agents", Server::http(serving.url()).bearer("another token"));
    let caller = Engine::builder().memory().provide(mcp).start().await.unwrap();
    let call = caller.start::<delegate>("invite".to_owned()).await.unwrap().result().await;
    let list = caller.start::<list_of_tools>(()).await.unwrap().result().await;
    for said in [call.unwrap_err().to_string(), list.unwrap_err().to_string()] {
        assert!(said.contains("not authorized") && !said.contains("attempt"), "{said}");
    }
}

/// The names of the tools of another engine.
#[workflow]
pub(crate) async fn list_of_tools(cx: &mut Cx) -> Result<Vec<String>> {
    Ok(cx.mcp("agents").tools().await?.tools.into_iter().map(|tool| tool.name).collect())
}

/// Answers the first question that a run of `engine` asks.
async fn answer_first(engine: &Engine, run: &aether::id::RunId, value: &InputAnswer) {
    loop {
        let pending = engine.pending(run).await.unwrap();
        if let Some(wait) = pending.iter().find(|wait| wait.waiting == Waiting::Question) {
            engine.answer(run, wait, value, "ann").await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn one_engine_calls_another_over_http_and_the_server_begins_anew_in_between() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.db");
    let open = async || Engine::builder().sqlite(&file).start().await.unwrap();
    let first = open().await;
    let serving =
        serve(&first).workflow::<invite>().token("the-token-of-the-test").http("127.0.0.1:0").await.unwrap();
    let (url, address) = (serving.url(), serving.address().to_string());

    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mcp = Mcp::new().server("agents", Server::http(&url).bearer("the-token-of-the-test"));
    let caller = Engine::builder().store(store).provide(mcp).start().await.unwrap();
    let run = caller.start::<delegate>("invite".to_owned()).id("r").await.unwrap();
    answer_first(&caller, run.id(), &InputAnswer::accept(&json!({ "answer": "5" }))).await;

    // The server goes away, engine and all, and comes back with what its file holds.
    drop(serving);
    drop(first);
    let second = open().await;
    let serving = loop {
        let service = serve(&second).workflow::<invite>().token("the-token-of-the-test");
        match service.http(&address).await {
            Ok(serving) => break serving,
            Err(_taken) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    answer_first(&caller, run.id(), &InputAnswer::accept(&json!({ "decision": "approve" }))).await;
    assert!(run.result().await.unwrap().starts_with("sent 5 invitations"));
    assert_eq!(second.count(aether::store::RunFilter::default()).await.unwrap(), 1);
    caller.verify(run.id()).await.unwrap();
    serving.close().await;
}

const FOLDER: &str = "AETHER_MCP_SERVING";

/// Note a line in a file, once.
#[step(effect = "tool")]
async fn note(_cx: &mut StepCx, file: &str) -> Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(())
}

/// Note a line, wait, and note another.
#[workflow]
pub(crate) async fn two_notes(cx: &mut Cx) -> Result<String> {
    let folder = cx.config::<Folder>().await?.0;
    note(cx, &format!("{folder}/before")).await?;
    cx.sleep(Duration::from_secs(3)).await;
    note(cx, &format!("{folder}/after")).await?;
    Ok("noted".into())
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Folder(String);

/// The server process of the test below; without a folder there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_process_serves_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let file = Path::new(&folder).join("server.db");
    let engine = Engine::builder().sqlite(file).provide(Folder(folder)).start().await.unwrap();
    serve(&engine).workflow::<two_notes>().stdio().await.unwrap();
}

fn lines(file: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test]
async fn a_server_process_that_is_killed_in_the_middle_goes_on_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::stdio(std::env::current_exe().unwrap())
        .arg("serving::a_server_process_serves_until_it_is_killed")
        .arg("--exact")
        .arg("--nocapture")
        .env(FOLDER, folder.path().to_str().unwrap());
    let mcp = Mcp::new().server("agents", server);
    let caller = Engine::builder().memory().provide(mcp.clone()).start().await.unwrap();
    let run = caller.start::<delegate>("two_notes".to_owned()).id("r").await.unwrap();
    let before = folder.path().join("before");
    while lines(&before).is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Until the caller has recorded that there is a task: a call that is cut off is in doubt.
    while !caller.pending(run.id()).await.unwrap().iter().any(|wait| wait.waiting == Waiting::Timer) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let killed = rustix::process::Pid::from_raw(lines(&before)[0]).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    assert_eq!(run.result().await.unwrap(), "noted");
    let (before, after) = (lines(&before), lines(&folder.path().join("after")));
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_ne!(before, after, "another process went on");
    mcp.close().await;
}
