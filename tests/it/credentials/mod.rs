//! Credentials in one table: each place from which one can come has its own, and none of them is in the database, its log,
//! large values, exports, forks, streams, what is logged, or what is shown of handles and views, while processes of an engine
//! that redacts are killed and others go on.
//!
//! A place that is new joins by a name in [`PLACES`](program::PLACES) and by code that says its credential: the control, which
//! redacts nothing, fails for one that it does not find.

mod program;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aether::id::RunId;
use aether::llm::{Models, OpenAiClient};
use aether::people::Waiting;
use aether::prelude::*;
use aether::recording::Masking;
use aether::resource::{Inspection, Verifier};
use aether::sqlite::SqliteStore;
use aether::store::event::StateChanged;
use aether::store::{RunFilter, Store};
use aether_testing::{CrashPoint, CrashStore};
use futures::future::BoxFuture;

use self::program::{
    Desk, Model, NEVER, PLACES, cre_all, cre_many, cre_plan, cre_wait, credential, tool_server, world,
};
use crate::planted::Planted;
use crate::seeds::kit::{flushed, in_time, until_waiting};

/// Where a process works; what it shows and logs is in `said`.
const FOLDER: &str = "AETHER_CREDENTIALS_FOLDER";
const SERVER: &str = "AETHER_CREDENTIALS_SERVER";
const REDACTS: &str = "AETHER_CREDENTIALS_REDACTS";
/// The write at which the process dies.
const DEATH: &str = "AETHER_CREDENTIALS_DEATH";

/// After which of its writes each process is killed; the one after them ends everything.
const DEATHS: [u64; 3] = [9, 12, 14];

#[derive(Debug)]
struct AsLeft;

impl Verifier for AsLeft {
    fn name(&self) -> &str {
        "as left"
    }

    fn look<'a>(&'a self, _: &'a RunId, _: &'a StateChanged) -> BoxFuture<'a, Result<Inspection>> {
        Box::pin(std::future::ready(Ok(Inspection::Unchanged)))
    }
}

/// Notes what was shown.
#[derive(Clone)]
struct Said(PathBuf);

impl Said {
    fn note(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

/// Runs where the test started this program; without a folder there is nothing to do.
#[test]
fn a_process_with_credentials_lives_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let said = Said(folder.join("said").join(std::process::id().to_string()));
    std::fs::create_dir_all(&said.0).unwrap();
    let log = std::fs::File::create(said.0.join("log")).unwrap();
    // Of every thread, and of every crate but one: at the level of traces, the client of tools writes down what it reads.
    let filter = "trace,rmcp=info";
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_ansi(false)
        .with_writer(Arc::new(log))
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(live(&folder, &said));
}

async fn live(folder: &Path, said: &Said) {
    let inner: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.join("agent.db")).unwrap());
    let death = std::env::var(DEATH).ok().map(|number| CrashPoint::After(number.parse().unwrap()));
    let store = Arc::new(CrashStore::new(inner.clone(), death));
    let base = std::env::var(SERVER).unwrap();
    let (desk, mcp) = (Desk { server: base.clone(), tokens: Arc::default() }, tool_server(&base));
    said.note("tools", format!("{mcp:?}"));
    let client = OpenAiClient::new("http://127.0.0.1:1/v1", credential("key of a model"), "m");
    said.note("model", format!("{client:?}"));
    let builder = Engine::builder().store(store.clone()).poll_interval(Duration::from_millis(10));
    let builder =
        builder.provide(desk.clone()).provide(Models::new(Model)).provide(mcp).verifier("file", AsLeft);
    let masking = PLACES.iter().fold(Masking::only(), |masking, place| masking.text(credential(place)));
    let builder = if std::env::var(REDACTS).is_ok() { builder.redact(masking) } else { builder };
    let all = async {
        let engine = builder.start().await.unwrap();
        let run = engine.start::<cre_all>((credential("run input"), base)).id("all").await.unwrap();
        let operator = tokio::spawn(operate(engine.clone(), desk, run.id().clone(), said.clone()));
        said.note("result", in_time(run.result()).await.unwrap_err().to_string());
        operator.abort();
        others(&engine, said).await;
        shown(&engine, said).await;
        said.note("handle", format!("{run:?} {engine:?}"));
        drop(run);
        engine.shutdown().await.unwrap();
    };
    tokio::select! {
        () = store.crashed() => {
            flushed(&inner).await;
            println!("\nhere");
            std::future::pending().await
        }
        () = all => println!("\nended"),
    }
}

/// Says what there is to say to the waits of a run, again and again: it may be over, or what was said may be lost.
async fn operate(engine: Engine, desk: Desk, run: RunId, said: Said) {
    let _sent = engine.signal(&run, "word", "1", &credential("signal")).await;
    let _sent = engine.signal(&run, "never read", "2", &credential("unread signal")).await;
    loop {
        for open in engine.pending(&run).await.unwrap_or_default() {
            let command = &open.command;
            said.note(&format!("wait-{command}"), format!("{open:?}"));
            let _said = match (open.waiting, open.name.as_str()) {
                (Waiting::Question, _) => engine.answer(&run, command, &credential("answer"), "ann").await,
                (Waiting::Callback, _) => {
                    let tokens = desk.tokens.lock().unwrap().clone();
                    for token in tokens {
                        let _reported = engine.complete_callback(&token, &credential("callback")).await;
                    }
                    continue;
                }
                (Waiting::Approval, "refused") => {
                    engine.reject(&run, command, &credential("refusal of a person"), "ann").await
                }
                (Waiting::Approval, _) => {
                    let what = serde_json::json!({ "what": credential("approved argument") });
                    engine.approve_with(&run, command, &what, "ann").await
                }
                _ => continue,
            };
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What does not need a run that is killed.
async fn others(engine: &Engine, said: &Said) {
    let waits = engine.start::<cre_wait>("some".to_owned()).id("waits").await.unwrap();
    in_time(until_waiting(&waits)).await;
    waits.cancel(&credential("reason of a cancel"), "ann").await.unwrap();
    said.note("cancelled", in_time(waits.result()).await.unwrap_err().to_string());
    let yearly = engine.schedule::<cre_wait>("0 0 1 1 *", "UTC").name("yearly");
    yearly.input(credential("scheduled input")).await.unwrap();
    let hour = Duration::from_secs(3_600);
    let many = engine.start::<cre_many>(vec![credential("gathered input")]).collect("k", 10, hour);
    said.note("gathered", format!("{:?}", many.await.unwrap()));

    let planned = engine.start::<cre_plan>(()).id("plan").await.unwrap();
    said.note("plan", in_time(planned.result()).await.unwrap());
    let plan = engine.fork(planned.id()).at_end().plan().await.unwrap();
    let fork = plan.answer("0:plan.route", &credential("replaced answer")).start("ann").await.unwrap();
    let fork = engine.handle::<cre_plan>(fork.id().as_str()).await.unwrap();
    said.note("fork", in_time(fork.result()).await.unwrap());
}

/// All that can be read of all runs; they have ended.
async fn shown(engine: &Engine, said: &Said) {
    let runs = engine.runs(RunFilter::default()).await.unwrap();
    said.note("runs", format!("{runs:?}"));
    for (number, record) in runs.iter().enumerate() {
        let view = engine.view(&record.id).await.unwrap();
        let trace = engine.trace(&record.id).await.unwrap();
        said.note(
            &format!("view-{number}"),
            format!("{view:?} {trace} {}", serde_json::to_string(&view).unwrap()),
        );
        let recording = engine.export_with(&record.id, &Masking::off()).await.unwrap();
        said.note(&format!("export-{number}"), format!("{recording:?}"));
        recording.write(said.0.join(format!("recording-{number}"))).unwrap();
        said.note(&format!("ledger-{number}"), format!("{:?}", engine.ledger(&record.id).await.unwrap()));
        engine.verify(&record.id).await.unwrap();
        let mut told = engine.find(record.id.as_str()).await.unwrap().stream::<String>("told").text();
        let mut whole = String::new();
        while let Some(text) = in_time(told.next()).await.unwrap() {
            whole = text.to_string();
        }
        said.note(&format!("stream-{number}"), whole);
    }
    said.note("schedules", format!("{:?}", engine.store().schedules(None, 10).await.unwrap()));
}

/// Kills processes and lets the last one end everything. Where each credential was found: its place and the file.
fn found(redacts: bool) -> BTreeSet<(String, String)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, folder) = (runtime.block_on(world()), tempfile::tempdir().unwrap());
    let mut found = BTreeSet::new();
    for death in DEATHS.map(Some).into_iter().chain([None]) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "credentials::a_process_with_credentials_lives_until_it_is_killed",
            "--exact",
            "--nocapture",
        ]);
        command.env(FOLDER, folder.path()).env(SERVER, server.uri());
        if let Some(number) = death {
            command.env(DEATH, number.to_string());
        }
        if redacts {
            command.env(REDACTS, "yes");
        }
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines =
            BufReader::new(process.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
        let expected = if death.is_some() { "here" } else { "ended" };
        assert!(lines.any(|line| line == expected), "a process ended before its time: {death:?}");
        if death.is_some() {
            process.kill().unwrap();
        }
        process.wait().unwrap();
        found.extend(below(folder.path()));
    }
    found
}

fn below(folder: &Path) -> BTreeSet<(String, String)> {
    let all = PLACES.iter().chain(NEVER).map(|place| (*place, credential(place)));
    let planted = Planted::new(all);
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(std::result::Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).unwrap_or_default();
            let names = planted.found_in(&bytes).into_iter();
            found.extend(names.map(|(place, form)| (place, format!("{file}, {form}"))));
        }
    }
    found
}

#[test]
fn a_credential_is_found_nowhere_from_whatever_place_it_came() {
    assert_eq!(found(true), BTreeSet::new(), "credentials were written down");
}

#[test]
fn every_credential_of_the_table_comes_up_where_nothing_is_redacted() {
    let found = found(false);
    let places: BTreeSet<&str> = found.iter().map(|(place, _)| place.as_str()).collect();
    let missing: Vec<_> = PLACES.iter().filter(|place| !places.contains(**place)).collect();
    assert!(missing.is_empty(), "these do not come up: {missing:?}");
    let written: Vec<_> = found.iter().filter(|(place, _)| NEVER.contains(&place.as_str())).collect();
    assert!(written.is_empty(), "these are never written down: {written:?}");
    // In the database, and in what is shown of it.
    for kind in ["agent.db", "export-", "view-", "log", "fork", "stream-", "recording-", "wait-", "schedules"]
    {
        assert!(found.iter().any(|(_, file)| file.starts_with(kind)), "none in {kind}");
    }
}
