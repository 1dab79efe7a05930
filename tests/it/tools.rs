//! The table of `docs/agents.md`: what each declaration of a step makes of an agent's call of it. Each row is a test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::agent::CxAgent;
use aether::definition::Workflow;
use aether::effect::Payload;
use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, Models, ToolCall};
use aether::people::{Resolution, Waiting};
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::{MemoryStore, Store, read};
use futures::future::BoxFuture;
use serde_json::json;

use crate::seeds::kit::in_time;

/// What becomes of a body's first call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    Succeeds,
    /// Nobody knows.
    Unknown,
    /// It surely did nothing, and may be tried again.
    Fails,
}

/// How the first call ends, and the keys of all calls.
#[derive(Clone)]
struct Desk {
    first: First,
    keys: Arc<Mutex<Vec<String>>>,
}

fn call(cx: &StepCx) -> Result<String> {
    let desk = cx.dep::<Desk>()?;
    let mut keys = desk.keys.lock().unwrap();
    keys.push(cx.idempotency_key().to_string());
    match desk.first {
        First::Unknown if keys.len() == 1 => Err(Failure::unknown("the line went dead")),
        First::Fails if keys.len() == 1 => Err(Failure::retryable("the line is busy")),
        _ => Ok("done".to_owned()),
    }
}

async fn looked(cx: &mut StepCx, _cents: u32) -> Result<Probe<String>> {
    let _cx = cx;
    Ok(Probe::Happened("it was seen".to_owned()))
}

/// Declares the step of each row, with the very text that stands in the table, an agent that has it as a tool, and its test.
/// The name of the argument comes from where the closures over it are written.
macro_rules! rows {
    ($cents:ident: $($test:ident $step:ident $agent:ident [$($declared:tt)*] $(. $raised:ident $argument:tt)?;)*) => {
        /// The first cells of the table.
        fn declared() -> Vec<String> {
            vec![$(said(stringify!($($declared)*), stringify!($($raised)?))),*]
        }

        $(
            /// Moves money.
            #[step($($declared)*)]
            async fn $step(cx: &mut StepCx, $cents: u32) -> Result<String> {
                let _cents = $cents;
                call(cx)
            }

            /// Has an agent call it.
            #[workflow]
            async fn $agent(cx: &mut Cx) -> Result<String> {
                let tool = $step::tool()$(. $raised $argument)?;
                Ok(cx.agent("agent").tools((tool,)).run("go".to_owned()).await?.answer)
            }

            #[tokio::test]
            async fn $test() {
                check::<$agent>(stringify!($step), &said(stringify!($($declared)*), stringify!($($raised)?))).await;
            }
        )*
    };
}

/// How the table says it.
fn said(declared: &str, raised: &str) -> String {
    let declared: String = declared.split_whitespace().collect::<Vec<_>>().join(" ");
    let declared =
        declared.replace(" ,", ",").replace("( ", "(").replace(" )", ")").replace("retry (", "retry(");
    if raised.is_empty() { format!("`{declared}`") } else { format!("`{declared}`, `tool().{raised}(..)`") }
}

rows! { cents:
    a_read_runs_again tab_read tab_read_agent [effect = "read"];
    a_question_to_a_model_is_asked_again tab_llm tab_llm_agent [effect = "llm"];
    a_tool_is_called_once tab_tool tab_tool_agent [effect = "tool"];
    an_external_call_is_made_once tab_external tab_external_agent [effect = "external"];
    a_request_is_made_once tab_http tab_http_agent [effect = "http"];
    an_idempotent_tool_runs_again_under_its_key tab_again tab_again_agent [effect = "tool", idempotent, on_unknown = "retry"];
    an_idempotent_tool_is_retried_as_it_says
        tab_retried tab_retried_agent [effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 2, delay = "1ms")];
    a_tool_waits_for_an_operator tab_ask tab_ask_agent [effect = "tool", on_unknown = "ask"];
    a_tool_is_looked_for tab_probe tab_probe_agent [effect = "tool", on_unknown = "probe", probe = looked];
    a_tool_that_is_looked_for_is_retried_as_it_says tab_tries tab_tries_agent [effect = "tool", on_unknown = "probe", probe = looked, retry(max_retries = 2, delay = "1ms")];
    an_irreversible_tool_is_called_once tab_once tab_once_agent [effect = "tool", irreversible];
    a_tool_needs_approval tab_approved tab_approved_agent [effect = "tool", approval = "required"];
    a_tool_needs_approval_by_its_arguments tab_large tab_large_agent [effect = "tool", approval = |cents| *cents > 100];
    an_agent_asks_for_approval tab_raised tab_raised_agent [effect = "tool"].with_approval();
    an_agent_asks_for_approval_by_the_arguments
        tab_raised_large tab_raised_large_agent [effect = "tool"].with_approval_when(|args| args.as_str().contains("500"));
}

/// Asks for the tool once, with as many cents as it is told to.
#[derive(Debug)]
struct Model(u32);

impl ModelClient for Model {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, std::result::Result<ChatResponse, ModelError>> {
        let tool = request.tools.first().filter(|_| request.messages.len() < 3).map(|tool| tool.name.clone());
        let arguments = json!({ "cents": self.0 }).to_string();
        let response = ChatResponse {
            model: "m".into(),
            content: tool.is_none().then(|| "done".to_owned()),
            tool_calls: tool
                .into_iter()
                .map(|name| ToolCall { id: "1".into(), name, arguments: arguments.clone() })
                .collect(),
            ..ChatResponse::default()
        };
        Box::pin(std::future::ready(Ok(response)))
    }
}

/// What came of a call.
#[derive(Debug)]
struct Came {
    class: String,
    has_intent: bool,
    /// Whether somebody was asked for consent, and whether an operator was asked what happened.
    asked: bool,
    operator: bool,
    result: std::result::Result<String, String>,
    keys: Vec<String>,
}

/// The call of the tool `step` by an agent of this workflow.
async fn came<W: Workflow<Input = (), Output = String>>(step: &str, first: First, cents: u32) -> Came {
    let desk = Desk { first, keys: Arc::default() };
    let store = MemoryStore::new();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let builder = Engine::builder().store(shared).provide(desk.clone()).provide(Models::new(Model(cents)));
    let engine = builder.start().await.unwrap();
    let run = engine.start::<W>(()).id("r").await.unwrap();
    let people = async {
        loop {
            for open in engine.pending(run.id()).await.unwrap() {
                let _over = match (open.waiting, &open.invocation) {
                    (Waiting::Approval, _) => engine.approve(run.id(), &open.command, "ann").await.map(drop),
                    (Waiting::Resolution, Some(invocation)) => {
                        let seen = Payload::encode("it was seen").unwrap();
                        let happened = Resolution::Happened(seen);
                        engine.resolve(run.id(), invocation, happened, "ann").await.map(drop)
                    }
                    _ => Ok(()),
                };
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let result = in_time(async {
        tokio::select! {
            result = run.result() => result.map_err(|error| error.to_string()),
            () = people => unreachable!("it never ends"),
        }
    })
    .await;
    let frames = store.load(run.id(), 0).await.unwrap();
    let events = read::events(&store, run.id(), &frames).await.unwrap();
    let class = events.iter().find_map(|event| match event {
        Event::NodeStarted(e) if e.command.name() == step => Some(e.class.as_str().to_owned()),
        _ => None,
    });
    let asked = events.iter().any(|event| matches!(event, Event::ApprovalRequested(_)));
    let operator =
        events.iter().any(|event| matches!(event, Event::InvocationResolved(e) if e.actor == "ann"));
    let rows = engine.ledger(run.id()).await.unwrap();
    let has_intent = rows.iter().any(|row| row.command.name() == step);
    let keys = desk.keys.lock().unwrap().clone();
    Came { class: class.unwrap_or_default(), has_intent, asked, operator, result, keys }
}

/// The cells of the row that begins with this one.
fn cells(declared: &str) -> Vec<String> {
    let rows = table().into_iter().filter(|row| row[0] == declared).collect::<Vec<_>>();
    assert_eq!(rows.len(), 1, "docs/agents.md has no row, or several, for {declared}");
    rows.into_iter().next().unwrap()
}

fn table() -> Vec<Vec<String>> {
    let page = include_str!("../../docs/agents.md");
    let table = page.lines().skip_while(|line| !line.starts_with("| the step says |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    // The bars of a closure are escaped.
    let cell = |cell: &str| cell.trim().replace("\\|", "|");
    rows.map(|row| row.trim_matches('|').split(" | ").map(cell).collect()).collect()
}

async fn check<W: Workflow<Input = (), Output = String>>(step: &str, declared: &str) {
    let cells = cells(declared);
    let (small, large) =
        (came::<W>(step, First::Succeeds, 5).await, came::<W>(step, First::Succeeds, 500).await);
    for came in [&small, &large] {
        assert_eq!(format!("`{}`", came.class), cells[1], "{came:?}");
        assert_eq!(came.has_intent, cells[2] == "durable intent", "{came:?}");
        assert_eq!((came.result.as_deref(), came.keys.len()), (Ok("done"), 1));
    }
    let asked = match cells[5].as_str() {
        "none" => (false, false),
        "always" => (true, true),
        "by the arguments" => (false, true),
        other => panic!("{other}"),
    };
    assert_eq!((small.asked, large.asked), asked, "{small:?} {large:?}");

    let lost = came::<W>(step, First::Unknown, 5).await;
    let (calls, same_key) = (lost.keys.len(), lost.keys.windows(2).all(|keys| keys[0] == keys[1]));
    match cells[3].as_str() {
        "runs again" => assert!(lost.result.is_ok() && calls == 2, "{lost:?}"),
        "runs again, same key" => assert!(lost.result.is_ok() && calls == 2 && same_key, "{lost:?}"),
        "in doubt" => assert!(lost.result.is_err() && calls == 1 && !lost.operator, "{lost:?}"),
        "waits for an operator" => assert!(lost.result.is_ok() && calls == 1 && lost.operator, "{lost:?}"),
        "is looked for" => assert!(lost.result.is_ok() && calls == 1 && !lost.operator, "{lost:?}"),
        other => panic!("{other}"),
    }
    let failed = came::<W>(step, First::Fails, 5).await;
    let calls = if cells[4] == "no" { 1 } else { 2 };
    // That it failed is told to the model, which goes on.
    assert_eq!((failed.result.as_deref(), failed.keys.len()), (Ok("done"), calls), "{failed:?}");
}

#[test]
fn each_row_of_the_table_is_a_test() {
    let rows: Vec<String> = table().into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(rows, declared());
}
