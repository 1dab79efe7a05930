//! Decisions that wait for somebody: what is asked, and the form that answers it.
//!
//! Promise: a form holds what ties it to the wait that it shows; for another wait, or other arguments, it is refused. What
//! cannot be shown whole is not agreed to here.

use std::sync::PoisonError;

use aether_core::id::RunId;
use aether_core::journal::event::StateConfirmed;
use aether_core::outcome::EffectClass;
use aether_core::payload::Payload;
use aether_core::store::StoreError;
use aether_core::view::pending::{Pending, Waiting};
use aether_effects::llm::ChatRequest;
use askama::Template;
use percent_encoding::{CONTROLS, utf8_percent_encode};
use serde_json::Value;

use crate::pages::fields::{Edited, Field, fields};
use crate::pages::runs::run_path;
use crate::pages::shell::Ask;
use crate::pages::tool_question::ToolQuestion;
use crate::permissions::Actions;
use crate::text::exact::Exact;
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
    /// Whether a tool asks, over the Model Context Protocol; and whether it wants a page to be opened.
    is_of_tool: bool,
    is_page: bool,
    /// What a step says of itself where its call needs consent.
    marks: Option<Vec<String>>,
    args: Option<Shown>,
    fields: Option<Vec<Field>>,
    /// Whether an argument holds a number that a form does not keep, so that no form changes it.
    is_rounded: bool,
    /// What the form is bound to.
    shown: String,
    invocation: String,
    resource: Option<StateConfirmed>,
    url: Option<String>,
    since: When,
    until: Option<When>,
    site: Option<String>,
    parked: bool,
    /// Whether somebody decided, and no program has taken the decision yet.
    is_decided: bool,
    /// Whether something is too long to be shown whole.
    is_cut: bool,
    /// Who gave answers that did not fit, to auditors, and why they did not.
    refused: Vec<(Option<String>, String)>,
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
        let question = wait.question.as_ref().and_then(|question| question.decode::<Value>().ok());
        let of_tool = question.as_ref().filter(|_| wait.waiting == Waiting::Question);
        let of_tool = of_tool.and_then(ToolQuestion::read);
        let fields = match (wait.waiting, &of_tool) {
            (Waiting::Approval, _) => {
                let edited = wait.args.as_ref().and_then(|args| Edited::of(schema.as_ref(), args));
                edited.map(Edited::into_fields)
            }
            (Waiting::Question, Some(asked)) => asked.fields(),
            (Waiting::Question, None) => {
                fields(question.as_ref().and_then(|question| question.get("schema")), None)
            }
            _ => None,
        };
        let shown_with = wait.question.as_ref().filter(|_| !is_text(question.as_ref())).map(Shown::decided);
        let args = wait.args.as_ref().map(Shown::decided);
        let is_cut = shown_with.iter().chain(&args).any(|shown| shown.cut > 0);
        let is_rounded = wait.args.as_ref().and_then(|args| Exact::read(args.as_str()));
        let is_rounded = is_rounded.is_some_and(|args| !args.is_kept());
        let audits = ask.visit.audits();
        let refused = wait.refused.iter().map(|(actor, why)| (audits.then(|| actor.clone()), why.clone()));
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
            question: shown_with,
            is_page: of_tool.as_ref().is_some_and(ToolQuestion::is_page),
            is_of_tool: of_tool.is_some(),
            args,
            fields,
            is_rounded,
            is_cut,
            is_decided: is_decided(ask, wait).await,
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
            refused: refused.collect(),
            is_at_home,
        })
    }
}

/// Whether somebody decided about a wait, and no program has taken that up yet.
async fn is_decided(ask: &Ask, wait: &Pending) -> bool {
    let store = ask.shared.engine().store();
    match store.unread(&wait.run).await {
        Ok(unread) if unread.messages > 0 => {}
        // Where the inbox cannot be read, a second decision is refused all the same.
        _ => return false,
    }
    let messages = store.inbox(&wait.run, 0).await.unwrap_or_default();
    let command = &wait.command;
    let topic = match (wait.waiting, &wait.invocation) {
        (Waiting::Resolution, Some(invocation)) => format!("resolve:{invocation}"),
        (Waiting::Confirmation, _) => format!("confirm:{command}:"),
        (Waiting::Question, _) => format!("answer:{command}"),
        _ => format!("decide:{command}"),
    };
    let is_own = |known: &str| match wait.waiting {
        Waiting::Confirmation => known.starts_with(&topic),
        _ => known == topic,
    };
    messages.iter().any(|message| is_own(&message.topic))
}

/// The JSON Schema of the call in question: as the program gave it, or as a model of this run was told.
pub(crate) async fn schema(ask: &Ask, wait: &Pending) -> Option<Value> {
    wait.args.as_ref()?;
    if let Some(schema) = ask.shared.settings.schemas.get(wait.command.name()) {
        return Some(schema.clone());
    }
    // Only the journal says it, and it does not change while the wait is the same.
    let key = format!("{} {}", wait.run, wait.shown());
    let told = || ask.shared.told.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = told().get(&key) {
        return known.clone();
    }
    let schema = of_model(ask, &wait.run, wait.command.name()).await.ok()?;
    let mut told = told();
    if told.len() >= TOLD {
        told.clear();
    }
    told.insert(key, schema.clone());
    schema
}

/// Most schemas that are kept.
const TOLD: usize = 1_000;

async fn of_model(ask: &Ask, run: &RunId, tool: &str) -> Result<Option<Value>, StoreError> {
    let view = ask.shared.engine().view(run).await?;
    let asked = view.steps.iter().rev().filter(|step| step.class == EffectClass::Llm);
    let requests =
        asked.filter_map(|step| step.input.as_ref()).filter_map(|input| input.decode::<ChatRequest>().ok());
    let mut tools = requests.flat_map(|request| request.tools);
    Ok(tools.find(|known| known.name == tool).map(|known| known.schema))
}

/// Most characters of a title.
const TITLE: usize = 120;

fn title(wait: &Pending) -> String {
    let name = line(&wait.name, TITLE);
    match wait.waiting {
        Waiting::Approval => format!("Approve {name}?"),
        Waiting::Resolution => format!("Did {name} happen?"),
        Waiting::Confirmation => format!("A resource of {name} has changed"),
        _ => name,
    }
}

fn lead(wait: &Pending, question: Option<&Value>) -> String {
    match wait.waiting {
        Waiting::Approval if wait.args.is_none() && wait.name != line(&wait.name, TITLE) => wait.name.clone(),
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
            // A title has no line ends, and an end.
            Some(Value::String(text)) if *text != line(&wait.name, TITLE) => text.clone(),
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
    let is_of_web = url.starts_with("https://") || url.starts_with("http://");
    // As a browser asks for it, so that what is read is what is opened.
    is_of_web.then(|| utf8_percent_encode(url, CONTROLS).to_string())
}

/// The arguments of a call as they are proposed.
pub(crate) fn proposed(args: Option<&Payload>) -> Option<Value> {
    args.and_then(|args| args.decode().ok())
}
