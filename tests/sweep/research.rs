//! The research example under every crash and every fault, with its own tools on a small tree.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use aether::definition::Workflow as _;
use aether::id::RunId;
use aether::llm::{ChatResponse, ToolCall};
use aether::store::MemoryStore;
use aether::store::event::{Event, RunCreated};
use aether::store::journal::Frame;
use aether::store::{NewRun, Store};
use aether_testing::{CrashPoint, Sim};
use serde_json::json;
use tempfile::TempDir;

use crate::agent::{Brief, research};
use crate::tools::{Desk, list_files, read_slice, search_text, write_report};

/// The example's simulation, and what it needs while it lives.
pub(crate) struct Bench {
    pub(crate) sim: Sim<research>,
    pub(crate) brief: Brief,
    _folder: TempDir,
}

pub(crate) async fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let (tree, report) = (folder.path().join("tree"), folder.path().join("out").join("report.md"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("ledger.rs"), "//! The ledger.\n\n/// An open call is in doubt.\nfn open() {}\n")
        .unwrap();
    fs::write(tree.join("notes.md"), "Nothing here.\n").unwrap();
    let brief = Brief { question: "What is in doubt?".into(), tree, report: report.clone() };
    let desk = Desk { store: store_with(&brief).await, side_log: None };
    let sim = Sim::new::<research>()
        .model_for("research", |request| model(request.messages.len()))
        .real::<list_files>()
        .real::<search_text>()
        .real::<read_slice>()
        .real::<write_report>()
        .provide(desk)
        .prepare(move || clean(&report));
    Bench { sim, brief, _folder: folder }
}

/// No report, and no folder for it.
fn clean(report: &Path) {
    if let Some(folder) = report.parent() {
        let _there_was_none = fs::remove_dir_all(folder);
    }
}

/// The tools look their run's input up: here, in a store that holds nothing else.
async fn store_with(brief: &Brief) -> Arc<dyn Store> {
    let input = research::encode(brief).unwrap();
    let digest = aether::effect::Digest::of(&input).unwrap();
    let created: Event = RunCreated {
        workflow: "research".into(),
        module: String::new(),
        version: 1,
        fingerprint: String::new(),
        input,
        digest: digest.clone(),
        seed: "00".repeat(16),
        parent: None,
        labels: Default::default(),
        forked_from: None,
        terms: Default::default(),
    }
    .into();
    let at = jiff::Timestamp::UNIX_EPOCH;
    let store = MemoryStore::new();
    let new = NewRun {
        id: RunId::new("sim").unwrap(),
        workflow: "research".into(),
        version: 1,
        code: Default::default(),
        digest,
        parent: None,
        labels: Default::default(),
        traceparent: None,
        frame: Frame::encode(&[created]).unwrap(),
        at,
        owner: None,
        parent_epoch: None,
        terms: Default::default(),
    };
    store.create(new).await.unwrap();
    Arc::new(store)
}

fn model(messages: usize) -> ChatResponse {
    let call = |name: &str, arguments: serde_json::Value| ChatResponse {
        model: "scripted".into(),
        tool_calls: vec![ToolCall {
            id: format!("call-{name}"),
            name: name.into(),
            arguments: arguments.to_string(),
        }],
        ..ChatResponse::default()
    };
    match messages {
        0..=2 => call("list_files", json!({})),
        3..=4 => call("search_text", json!({ "text": "doubt" })),
        5..=6 => call("read_slice", json!({ "path": "ledger.rs", "first": 1, "lines": 4 })),
        7..=8 => call("write_report", json!({ "title": "Doubt", "markdown": "ledger.rs:3 says it." })),
        _ => ChatResponse {
            model: "scripted".into(),
            content: Some("An open call.".into()),
            ..ChatResponse::default()
        },
    }
}

#[tokio::test]
async fn the_example_survives_a_crash_at_every_boundary() {
    let Bench { sim, brief, _folder } = bench().await;
    let undisturbed = sim.run(brief.clone()).await;
    assert_eq!(undisturbed.assert_completed().answer, "An open call.");
    let started = Instant::now();
    let report = sim.crash_at_every_boundary(brief).await;
    println!(
        "{report}, {} altered arguments refused, in {:.1} s",
        report.digests,
        started.elapsed().as_secs_f64()
    );
    assert_eq!(report.crashes(), report.boundaries.len());
    let has =
        |wanted: fn(&CrashPoint) -> bool| report.boundaries.iter().any(|boundary| wanted(&boundary.point));
    assert!(has(|point| matches!(point, CrashPoint::Stalled(_))));
    assert!(has(|point| matches!(point, CrashPoint::InBody(_))));
    assert!(has(|point| matches!(point, CrashPoint::AfterBody(_))));
    assert!(!report.in_doubt.is_empty(), "the intent of the report was cut off, and its probe decided");
    assert!(report.digests >= 9, "{report:?}");
}

#[tokio::test]
async fn the_example_outlives_every_fault_of_its_store() {
    let Bench { sim, brief, _folder } = bench().await;
    let started = Instant::now();
    let report = sim.fail_at_every_call(brief).await;
    println!("{report} in {:.1} s", started.elapsed().as_secs_f64());
    assert!(report.faults() > 60 && !report.stopped.is_empty() && !report.outlasted.is_empty(), "{report}");
}
