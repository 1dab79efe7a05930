//! Decisions that wait for somebody: what is asked, and the form that answers it.
//!
//! Promise: a form holds what ties it to the wait that it shows; for another wait, or other arguments, it is refused.

use aether_core::id::RunId;
use aether_core::journal::event::StateConfirmed;
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;
use aether_core::view::pending::{Pending, Waiting};
use aether_effects::llm::ChatRequest;
use askama::Template;
use serde_json::Value;

use crate::pages::fields::{Field, fields};
use crate::pages::runs::run_path;
use crate::pages::shell::Ask;
use crate::permissions::Actions;
use crate::text::json::{Shown, line};
use crate::text::time::When;

/// One decision.
#[derive(Debug, Template)]
#[template(path = "card.html")]
pub(crate) struct Card {
    form_token: String,
    may_decide: bool,
    run: String,
    href: String,
    workflow: String,
    command: String,
    /// What kind of decision it is, as its styles and its forms name it.
    kind: &'static str,
    title: String,
    lead: String,
    question: Option<Shown>,
    /// What a step says of itself where its call needs consent.
    marks: Option<Vec<String>>,
    args: Option<Shown>,
    fields: Option<Vec<Field>>,
    /// What the form is bound to.
    shown: String,
    invocation: String,
    resource: Option<StateConfirmed>,
    url: Option<String>,
    since: When,
    until: Option<When>,
    site: Option<String>,
    parked: bool,
    refused: Vec<(String, String)>,
    /// Whether the card stands on the page of its run.
    is_at_home: bool,
}

impl Card {
    /// The card of a wait; `None` where nobody decides about it.
    pub(crate) async fn of(ask: &Ask, wait: &Pending, is_at_home: bool) -> Option<Self> {
        let kind = match wait.waiting {
            Waiting::Approval => "approval",
            Waiting::Question => "question",
            Waiting::Resolution => "resolution",
            Waiting::Confirmation => "confirmation",
            _ => return None,
        };
        let schema = schema(ask, wait).await;
        let value = wait.args.as_ref().and_then(|args| args.decode::<Value>().ok());
        let question = wait.question.as_ref().and_then(|question| question.decode::<Value>().ok());
        let fields = match wait.waiting {
            Waiting::Approval if value.is_some() => fields(schema.as_ref(), value.as_ref()),
            Waiting::Question => fields(question.as_ref().and_then(|question| question.get("schema")), None),
            _ => None,
        };
        Some(Self {
            form_token: ask.visit.form_token.clone(),
            may_decide: ask.visit.may(Actions::DECIDE),
            run: wait.run.to_string(),
            href: run_path(&ask.visit.base, wait.run.as_str()),
            workflow: wait.workflow.clone(),
            command: wait.command.to_string(),
            kind,
            title: title(wait),
            lead: lead(wait, question.as_ref()),
            marks: marks(question.as_ref()),
            question: wait.question.as_ref().filter(|_| !is_text(question.as_ref())).map(Shown::payload),
            args: wait.args.as_ref().map(Shown::payload),
            fields,
            shown: wait.shown(),
            invocation: wait.invocation.as_ref().map(ToString::to_string).unwrap_or_default(),
            resource: match wait.waiting {
                Waiting::Confirmation => wait.question.as_ref().and_then(|question| question.decode().ok()),
                _ => None,
            },
            url: question.as_ref().and_then(link),
            since: ask.when(wait.since),
            until: wait.until.map(|until| ask.when(until)),
            site: wait.site.clone(),
            parked: wait.parked,
            refused: wait.refused.clone(),
            is_at_home,
        })
    }
}

/// The JSON Schema of the call in question: as the program gave it, or as a model of this run was told.
pub(crate) async fn schema(ask: &Ask, wait: &Pending) -> Option<Value> {
    wait.args.as_ref()?;
    if let Some(schema) = ask.shared.settings.schemas.get(wait.command.name()) {
        return Some(schema.clone());
    }
    of_model(ask, &wait.run, wait.command.name()).await
}

async fn of_model(ask: &Ask, run: &RunId, tool: &str) -> Option<Value> {
    let view = ask.shared.engine().view(run).await.ok()?;
    let asked = view.steps.iter().rev().filter(|step| step.class == EffectClass::Llm);
    let requests =
        asked.filter_map(|step| step.input.as_ref()).filter_map(|input| input.decode::<ChatRequest>().ok());
    let mut tools = requests.flat_map(|request| request.tools);
    tools.find(|known| known.name == tool).map(|known| known.schema)
}

fn title(wait: &Pending) -> String {
    let name = line(&wait.name, 120);
    match wait.waiting {
        Waiting::Approval => format!("Approve {name}?"),
        Waiting::Resolution => format!("Did {name} happen?"),
        Waiting::Confirmation => format!("A resource of {name} has changed"),
        _ => name,
    }
}

fn lead(wait: &Pending, question: Option<&Value>) -> String {
    match wait.waiting {
        Waiting::Approval if wait.args.is_none() => {
            "The workflow waits for a decision; no call is made by it.".into()
        }
        Waiting::Approval => "The call is not made before somebody agrees. Nothing has happened yet.".into(),
        Waiting::Resolution => {
            "The call was begun and its outcome was lost. It is not made again before somebody has \
             looked at the other system and says what became of it."
                .into()
        }
        Waiting::Confirmation => "The run changed it, and found it different when it came back.".into(),
        _ => match question {
            Some(Value::String(text)) if *text != wait.name => text.clone(),
            Some(value) => value.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
            None => String::new(),
        },
    }
}

/// What the engine shows with a call of a step, as words; `None` for what a workflow shows.
fn marks(question: Option<&Value>) -> Option<Vec<String>> {
    let shown = question?.as_object()?;
    let (Some(class), Some(irreversible), Some(step), 3) =
        (shown.get("class"), shown.get("irreversible"), shown.get("step"), shown.len())
    else {
        return None;
    };
    let irreversible = irreversible.as_bool()?.then(|| "irreversible".to_owned());
    Some(
        [class, step]
            .iter()
            .filter_map(|text| text.as_str().map(str::to_owned))
            .chain(irreversible)
            .collect(),
    )
}

fn is_text(question: Option<&Value>) -> bool {
    question.is_none_or(|question| question.is_string() || question.is_null())
}

/// An address that a question asks to open: of the web, and of nothing else.
fn link(question: &Value) -> Option<String> {
    let url = question.get("url").and_then(Value::as_str)?;
    (url.starts_with("https://") || url.starts_with("http://")).then(|| url.to_owned())
}

/// The arguments of a call as they are proposed.
pub(crate) fn proposed(args: Option<&Payload>) -> Option<Value> {
    args.and_then(|args| args.decode().ok())
}
