//! LiteLLM, a gateway to models that others wrote, with models that it plays itself: what it says is understood, and an
//! agent that speaks to it is killed in the middle.
//!
//! `scripts/litellm` installs it, and `scripts/test` calls that. It reaches no other machine.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use aether::llm::{
    ChatMessage, ChatRequest, ChatResponse, ModelClient, ModelError, OpenAiClient, ToolSpec, Usage,
};
use aether::prelude::*;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

const KEY: &str = "sk-very-secret-key";
/// Where the processes of these tests write to.
const FOLDER: &str = "AETHER_LITELLM";
/// Where the gateway is, for the process that is killed.
const URL: &str = "AETHER_LITELLM_URL";

/// How long something may take that takes seconds on a machine with nothing else to do.
const PATIENCE: Duration = Duration::from_secs(180);

/// The gateway, as a process that dies with the test.
struct Gateway {
    process: Child,
    url: String,
}

impl Gateway {
    async fn start(folder: &Path) -> Self {
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(3).unwrap().join("litellm/venv/bin/python");
        assert!(program.exists(), "{} is missing: run scripts/litellm, which installs it", program.display());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/litellm");
        // Python writes beside what it reads.
        for file in ["config.yaml", "model.py"] {
            std::fs::copy(ours.join(file), folder.join(file)).unwrap();
        }
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(["-u", "-c", "from litellm import run_server; run_server()", "--config"]);
        command.arg(folder.join("config.yaml")).args(["--host", "127.0.0.1", "--port", &port]);
        command.args(["--telemetry", "False"]);
        // No prices are fetched, and nothing of the environment is used.
        command.env_clear().env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("HOME", folder);
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.env(FOLDER, folder).current_dir(folder);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut gateway = Self { process: command.spawn().unwrap(), url: format!("http://127.0.0.1:{port}") };
        let began = Instant::now();
        while !gateway.is_ready().await {
            let ended = gateway.process.try_wait().unwrap();
            let said = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(ended.is_none(), "the gateway ended: {}", said());
            assert!(began.elapsed() < PATIENCE, "the gateway is not ready: {}", said());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        gateway
    }

    async fn is_ready(&self) -> bool {
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().unwrap();
        let answer = client.get(format!("{}/health/liveliness", self.url)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    fn client(&self, model: &str) -> OpenAiClient {
        client(&self.url, model)
    }
}

fn client(url: &str, model: &str) -> OpenAiClient {
    OpenAiClient::new(format!("{url}/v1"), KEY, model)
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _dead_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn question() -> ChatRequest {
    let schema =
        json!({ "type": "object", "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } });
    let add = ToolSpec { name: "add".into(), description: "Adds.".into(), schema };
    ChatRequest {
        call: "ask".into(),
        messages: vec![ChatMessage::user("How much is 1 and 2?")],
        tools: vec![add],
        ..ChatRequest::default()
    }
}

/// The answer as a whole, and as a stream with the text as it was told.
async fn both(client: &OpenAiClient) -> [(Result<ChatResponse, ModelError>, String); 2] {
    let told = Mutex::new(String::new());
    let whole = client.chat(question()).await;
    let text = whole.as_ref().ok().and_then(|answer| answer.content.clone()).unwrap_or_default();
    let streamed = client.chat_streamed(question(), &|text| told.lock().unwrap().push_str(text)).await;
    [(whole, text), (streamed, told.into_inner().unwrap())]
}

/// It takes ten seconds of work to start, so that there is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_understood_and_an_agent_that_is_killed_while_it_answers_notes_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(folder.path()).await;
    answers_calls_and_errors_are_understood(&gateway).await;
    an_agent_is_killed_while_it_waits(&gateway, folder.path()).await;
}

async fn answers_calls_and_errors_are_understood(gateway: &Gateway) {
    for (answer, told) in both(&gateway.client("plain")).await {
        let answer = answer.unwrap();
        assert_eq!(
            (answer.content.as_deref(), told.as_str()),
            (Some("A durable answer."), "A durable answer.")
        );
        assert_eq!((answer.model.as_str(), answer.finish_reason.as_deref()), ("plain", Some("stop")));
        assert!(answer.tool_calls.is_empty() && answer.request_id.is_some(), "{answer:?}");
        assert!(answer.usage != Usage::default(), "{answer:?}");
    }
    // Its streams leave out the calls that it plays.
    let answer = gateway.client("calls").chat(question()).await.unwrap();
    let calls: Vec<_> = answer.tool_calls.iter().map(|it| (&*it.id, &*it.name, &*it.arguments)).collect();
    assert_eq!(calls, [("call_1", "add", "{\"a\":1,\"b\":2}")]);
    for (answer, told) in both(&gateway.client("limited")).await {
        assert!(matches!(&answer, Err(ModelError::RateLimited { .. })) && told.is_empty(), "{answer:?}");
    }
    for (answer, told) in both(&gateway.client("broken")).await {
        let is_broken = matches!(&answer, Err(ModelError::Overloaded { status: 500, .. }));
        assert!(is_broken && told.is_empty(), "{answer:?}");
    }
    for (answer, _) in both(&gateway.client("unknown")).await {
        assert!(matches!(&answer, Err(ModelError::BadRequest { .. })), "{answer:?}");
    }
}

/// Note a number.
#[step(effect = "tool")]
async fn note(_cx: &mut StepCx, number: u32) -> Result<String> {
    use std::io::Write as _;
    let file = PathBuf::from(std::env::var(FOLDER).unwrap()).join("noted");
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{number}")?;
    Ok(format!("{number} is noted"))
}

/// Note some numbers.
#[workflow]
async fn note_numbers(cx: &mut Cx) -> Result<String> {
    Ok(cx.agent("notes").tools(note::tool()).run("Note the first three numbers.").await?.answer)
}

/// The process that is killed in the test below; without a folder there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_an_agent() {
    let (Ok(folder), Ok(url)) = (std::env::var(FOLDER), std::env::var(URL)) else { return };
    let folder = PathBuf::from(folder);
    let engine = Engine::builder().sqlite(folder.join("run.db")).model(client(&url, "agent"));
    let engine = engine.start().await.unwrap();
    let run = engine.start::<note_numbers>(()).id("notes").await.unwrap();
    std::fs::write(folder.join("answer"), run.result().await.unwrap()).unwrap();
    let verified = engine.verify(run.id()).await.unwrap();
    assert_eq!(verified.recorded, verified.matched);
}

struct Agent(Child);

impl Agent {
    fn start(folder: &Path, url: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["litellm::a_process_with_an_agent", "--exact", "--nocapture"]);
        command.env(FOLDER, folder).env(URL, url).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Waits until this is so.
    async fn until(&mut self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            let ended = self.0.try_wait().unwrap();
            assert!(ended.is_none(), "the process ended before {what}: {ended:?}");
            assert!(began.elapsed() < PATIENCE, "no {what} within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the process has not ended within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _dead_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// How many notes are recorded as done.
fn recorded(folder: &Path) -> rusqlite::Result<u32> {
    let file = Connection::open_with_flags(folder.join("run.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    file.busy_timeout(Duration::from_secs(5))?;
    let sql = "SELECT count(*) FROM aether_ledger WHERE tool = 'note' AND status = 'succeeded'";
    file.query_row(sql, (), |row| row.get(0))
}

async fn an_agent_is_killed_while_it_waits(gateway: &Gateway, folder: &Path) {
    let (asked, noted) = (folder.join("asked"), folder.join("noted"));
    // It is killed while it waits for the first, the second and the third answer, which does not come before.
    for answered in [2, 4, 6, 7] {
        std::fs::write(folder.join(format!("answer-{answered}")), "").unwrap();
    }
    for notes in 0..3 {
        let mut agent = Agent::start(folder, &gateway.url);
        agent.until("question", || lines(&asked).len() > 2 * notes as usize).await;
        // The question does not wait for it.
        agent.until("recorded note", || notes == 0 || recorded(folder) == Ok(notes)).await;
    }
    assert!(Agent::start(folder, &gateway.url).ended().await.success());
    assert_eq!(lines(&noted), ["1", "2", "3"]);
    assert_eq!(lines(&folder.join("answer")), ["3 numbers are noted."]);
    // Of a question that was cut off nothing is recorded, and it is asked again.
    assert_eq!(lines(&asked), ["0", "0", "1", "1", "2", "2", "3"]);
}
