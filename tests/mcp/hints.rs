//! The table of `docs/mcp.md`: what each combination of a server's hints, believed or not, makes of a call.

use std::sync::Arc;

use aether::effect::EffectClass;
use aether::mcp::{Contract, Server, ToolHints};
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::{MemoryStore, Store};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::http_server::{Age, Cut, HttpServer, Manner};
use crate::kit::{Became, bank};

/// One row of the table, cell by cell.
#[derive(Debug)]
struct Row(Vec<String>);

fn rows() -> Vec<Row> {
    let page = include_str!("../../docs/mcp.md");
    let table = page.lines().skip_while(|line| !line.starts_with("| believed |")).skip(2);
    let table = table.take_while(|line| line.starts_with('|'));
    table
        .map(|line| Row(line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()))
        .collect()
}

const SAID: [Option<bool>; 3] = [None, Some(false), Some(true)];

impl Row {
    fn is_about(&self, believed: bool, hints: ToolHints) -> bool {
        let fits = |cell: &str, said: Option<bool>| match cell {
            "any" => true,
            "true" => said == Some(true),
            "not true" => said != Some(true),
            other => panic!("{other}"),
        };
        (self.0[0] == "yes") == believed
            && fits(&self.0[1], hints.read_only)
            && fits(&self.0[2], hints.destructive)
            && fits(&self.0[3], hints.idempotent)
            && fits(&self.0[4], hints.open_world)
    }
}

/// Every combination of hints, believed and not.
fn combinations() -> Vec<(bool, ToolHints)> {
    let mut all = Vec::new();
    for believed in [false, true] {
        for read_only in SAID {
            for destructive in SAID {
                for idempotent in SAID {
                    for open_world in SAID {
                        let hints = ToolHints { read_only, destructive, idempotent, open_world };
                        all.push((believed, hints));
                    }
                }
            }
        }
    }
    all
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Hinted {
    believed: bool,
    hints: ToolHints,
}

/// Calls a tool of which the server says this.
#[workflow]
async fn call_hinted(cx: &mut Cx, hinted: Hinted) -> Result<Became> {
    let contract = if hinted.believed { Contract::trusting(&hinted.hints) } else { Contract::default() };
    let call = cx.mcp("bank").tool("pay").args(&json!({})).contract(contract);
    Ok(match call.call().await {
        Ok(result) => Became::Answered(result.text()),
        Err(StepError::InDoubt(failure)) => Became::InDoubt(failure.to_string()),
        Err(error) => Became::Failed(error.to_string()),
    })
}

/// The call against a server; its class, whether it has a row in the ledger, what became of it, and how often it was sent.
async fn call(hinted: Hinted, lost: bool) -> (EffectClass, bool, Became, usize) {
    let server = HttpServer::start(Age::Newer).await;
    if lost {
        server.cut(Some(Cut::After("tools/call", 20)));
    } else {
        server.behave(Manner::Says("429 Too Many Requests"));
    }
    let store = MemoryStore::new();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let engine =
        Engine::builder().store(shared).provide(bank(Server::http(&server.url))).start().await.unwrap();
    let run = engine.start::<call_hinted>(hinted).id("r").await.unwrap();
    let became = {
        let mut ended = std::pin::pin!(run.result());
        loop {
            tokio::select! {
                became = &mut ended => break became.unwrap(),
                () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
            }
            if server.asked("tools/call") >= 2 {
                server.cut(None);
                server.behave(Manner::Answers);
            }
        }
    };
    let frames = store.load(run.id(), 0).await.unwrap();
    let events = aether::store::read::events(&store, run.id(), &frames).await.unwrap();
    let class = events.iter().find_map(|event| match event {
        Event::NodeStarted(started) => Some(started.class),
        _ => None,
    });
    let waited = events.iter().any(|event| matches!(event, Event::ApprovalRequested(_)));
    assert!(!waited, "the table says that nobody is asked");
    let in_ledger = !store.entries(run.id()).await.unwrap().is_empty();
    (class.unwrap(), in_ledger, became, server.asked("tools/call"))
}

#[test]
fn each_combination_stands_in_one_row() {
    let rows = rows();
    assert_eq!(rows.len(), 4);
    for (believed, hints) in combinations() {
        let about = rows.iter().filter(|row| row.is_about(believed, hints)).count();
        assert_eq!(about, 1, "{believed} {hints:?}");
    }
}

/// What the row says happens to its first and its last combination of hints.
async fn check(row: usize) {
    let row = &rows()[row];
    let about: Vec<_> = combinations().into_iter().filter(|(b, hints)| row.is_about(*b, *hints)).collect();
    for (believed, hints) in [about[0], about[about.len() - 1]] {
        let hinted = Hinted { believed, hints };
        let (class, in_ledger, lost, sent) = call(hinted, true).await;
        assert_eq!(format!("`{}`", class.as_str()), row.0[5], "{hinted:?}");
        assert_eq!(if in_ledger { "yes" } else { "no" }, row.0[6], "{hinted:?}");
        match row.0[7].as_str() {
            "`InDoubt`" => {
                assert!(matches!(lost, Became::InDoubt(_)) && sent == 1, "{hinted:?}: {lost:?} {sent}")
            }
            _ => assert!(matches!(lost, Became::Answered(_)) && sent >= 2, "{hinted:?}: {lost:?} {sent}"),
        }
        let (_, _, refused, sent) = call(hinted, false).await;
        match row.0[8].as_str() {
            "none" => {
                assert!(matches!(refused, Became::Failed(_)) && sent == 1, "{hinted:?}: {refused:?} {sent}")
            }
            _ => {
                assert!(matches!(refused, Became::Answered(_)) && sent >= 2, "{hinted:?}: {refused:?} {sent}")
            }
        }
        assert_eq!(row.0[9], "none");
    }
}

#[tokio::test]
async fn hints_that_are_not_believed_change_nothing() {
    check(0).await;
}

#[tokio::test]
async fn a_tool_that_is_believed_to_read_is_a_read() {
    check(1).await;
}

#[tokio::test]
async fn a_tool_that_is_believed_to_be_idempotent_is_called_again() {
    check(2).await;
}

#[tokio::test]
async fn any_other_tool_changes_the_world() {
    check(3).await;
}
