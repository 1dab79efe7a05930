//! The spans of a fold: what has ended since they were taken last, whole.
//!
//! Promise: the same journal gives the same spans, with the same ids, times and attributes, wherever and however often it is
//! folded.

use std::collections::BTreeSet;

use aether_core::contract::{Status, Trigger};
use aether_core::id::{CommandId, Position};
use aether_core::outcome::EffectClass;
use aether_core::trace::{SpanName, Trace, TraceContext};
use aether_core::view::{EventTime, Execution, Purpose, StepView};
use jiff::Timestamp;
use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind, Status as SpanStatus, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanLinks};

use crate::attributes::{Role, Shown, count, error_class, failed, shown, text};
use crate::fold::Fold;
use crate::scopes::around;
use crate::semconv::gen_ai::operation;
use crate::semconv::{SCHEMA_URL, SCOPE, aether, gen_ai};
use crate::settings::Settings;
use crate::timeline::{Piece, Timeline};

/// What a span stands for, beside what is exported of it.
#[derive(Clone, Debug)]
pub(crate) enum About {
    Run { workflow: String, status: Status },
    Agent,
    Command { step: Box<StepView>, role: Role },
    Other,
}

/// A span that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Position of the event that shows its end.
    pub(crate) position: Position,
    pub(crate) about: About,
    pub(crate) span: SpanData,
}

impl Ended {
    /// How long it took, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.span.end_time.duration_since(self.span.start_time).unwrap_or_default().as_secs_f64()
    }
}

/// Bytes of a span, about: as it is sent, and within a factor of two in memory.
pub(crate) fn bytes_of(span: &SpanData) -> usize {
    let attribute = |attribute: &KeyValue| {
        let value = match &attribute.value {
            Value::String(text) => text.as_str().len(),
            _ => 16,
        };
        attribute.key.as_str().len() + value + 24
    };
    let status = match &span.status {
        SpanStatus::Error { description } => description.len(),
        _ => 0,
    };
    256 + span.name.len() + status + span.attributes.iter().map(attribute).sum::<usize>()
}

/// A span without what was said, where it has any of that.
pub(crate) fn without_content(span: &SpanData) -> Option<SpanData> {
    let mut bare = span.clone();
    bare.attributes.retain(|attribute| !gen_ai::CONTENT.contains(&attribute.key.as_str()));
    if let SpanStatus::Error { description } = &mut bare.status {
        *description = "".into();
    }
    (bytes_of(&bare) < bytes_of(span)).then_some(bare)
}

/// The spans of a fold that have ended since they were taken last, in the order of their ends.
pub(crate) fn take(fold: &mut Fold, settings: &Settings) -> Vec<Ended> {
    let from = std::mem::replace(&mut fold.taken, fold.view.position);
    let (touched, scopes) = (std::mem::take(&mut fold.touched), fold.scopes.take_ended());
    let Some(trace) = fold.trace() else { return Vec::new() };
    let mut spans = Spans { fold, trace, settings, from, ended: Vec::new() };
    spans.collect(&touched, &scopes);
    let mut ended = spans.ended;
    fold.release(&touched);
    ended.sort_by_key(|span| span.position);
    ended
}

/// Makes spans of a fold.
struct Spans<'a> {
    fold: &'a Fold,
    trace: Trace,
    settings: &'a Settings,
    from: Position,
    ended: Vec<Ended>,
}

/// A span before it has its context.
struct Made<'a> {
    id: SpanName<'a>,
    parent: SpanId,
    began: Timestamp,
    ended: Timestamp,
    shown: Shown,
    status: SpanStatus,
    links: Vec<Link>,
}

impl Spans<'_> {
    fn collect(&mut self, touched: &BTreeSet<CommandId>, scopes: &[(String, Position)]) {
        let (fold, timeline) = (self.fold, &self.fold.timeline);
        for step in touched.iter().filter_map(|command| fold.view.step(command)) {
            self.command(step, &fold.executions_of(&step.command));
        }
        scopes.iter().for_each(|(path, position)| self.scope(path, *position));
        for (at, claim) in timeline.claims.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| timeline.claims.get(before));
            self.segment(claim, before);
        }
        timeline.parked.iter().for_each(|parked| self.parked(parked));
        self.run();
    }

    fn is_new(&self, position: Position) -> bool {
        position >= self.from
    }

    fn context(&self, name: SpanName<'_>) -> TraceContext {
        self.trace.context(&self.fold.view.run, name)
    }

    fn id(&self, name: SpanName<'_>) -> SpanId {
        SpanId::from_bytes(self.context(name).span)
    }

    /// The span around a place: of the innermost scope, or of the run.
    fn around(&self, place: &str) -> SpanId {
        self.id(around(place).next().map_or(SpanName::Run, SpanName::Scope))
    }

    fn push(&mut self, position: Position, about: About, made: Made<'_>) {
        let view = &self.fold.view;
        let Made { id, parent, began, ended, shown, status, links } = made;
        let Shown { name, kind, mut attributes } = shown;
        attributes.extend([
            text(aether::RUN_ID, view.run.to_string()),
            text(aether::WORKFLOW, view.workflow.clone()),
            text(gen_ai::CONVERSATION_ID, view.run.to_string()),
            KeyValue::new(aether::REPLAYED, false),
        ]);
        let mut all_links = SpanLinks::default();
        all_links.links = links;
        let span = SpanData {
            span_context: span_context(self.context(id), false),
            parent_span_id: parent,
            parent_span_is_remote: matches!(id, SpanName::Run) && self.trace.parent().is_some(),
            span_kind: kind,
            name: name.into(),
            start_time: began.min(ended).into(),
            end_time: ended.into(),
            attributes,
            dropped_attributes_count: 0,
            events: Default::default(),
            links: all_links,
            status,
            instrumentation_scope: InstrumentationScope::builder(SCOPE)
                .with_version(env!("CARGO_PKG_VERSION"))
                .with_schema_url(SCHEMA_URL)
                .build(),
        };
        self.ended.push(Ended { position, about, span });
    }

    fn command(&mut self, step: &StepView, executions: &[&Execution]) {
        let waits = executions.iter().any(|execution| moved(execution, Trigger::Suspend).is_some());
        let role = Role::of(step, waits);
        if role == Role::Drawn {
            return;
        }
        for execution in executions {
            match execution.purpose {
                Purpose::Approval => self.approval(execution),
                Purpose::Call if role.has_attempts() => self.attempt(step, execution),
                Purpose::Call => {}
            }
        }
        let is_over = step.status.is_terminal();
        let last = executions.iter().filter_map(|execution| ended(execution)).max_by_key(|end| end.position);
        let Some(last) = last.filter(|end| is_over && self.is_new(end.position)) else { return };
        let began = executions.iter().map(|execution| began(&self.fold.timeline, execution)).min();
        let command = &step.command;
        let timeline = &self.fold.timeline;
        let suspended = executions.iter().find_map(|execution| moved(execution, Trigger::Suspend));
        let wait = suspended.and_then(|moment| timeline.waits.get(&moment.position)).copied();
        let wait = if command.name() == "approval" { wait.map(|_| "approval") } else { wait };
        let mut shown = shown(step, role, wait, self.settings);
        let attempts = executions.iter().filter(|execution| was_made(execution)).count();
        if role.has_attempts() {
            shown.attributes.push(count(aether::ATTEMPTS, attempts as u64));
            if starts_unrecorded(executions) {
                shown.attributes.push(KeyValue::new(aether::START_DERIVED, true));
            }
        }
        let decided = timeline.decisions.get(command.as_str());
        shown.attributes.extend(decided.map(|decision| text(aether::ON_UNKNOWN, *decision)));
        let child = timeline.children.get(command.as_str());
        shown.attributes.extend(child.map(|run| text(aether::CHILD_RUN_ID, run.to_string())));
        let scope = around(command.place()).next().and_then(|path| self.fold.scopes.get(path));
        let agent = scope.and_then(|scope| scope.agent(last.position));
        shown.attributes.extend(agent.map(|agent| text(gen_ai::AGENT_NAME, agent.to_owned())));
        let status = self.status_of(step, &mut shown);
        let made = Made {
            id: SpanName::Command(command),
            parent: self.around(command.place()),
            began: began.unwrap_or(last.at),
            ended: last.at,
            shown,
            status,
            links: Vec::new(),
        };
        self.push(last.position, About::Command { step: Box::new(step.clone()), role }, made);
    }

    fn status_of(&self, step: &StepView, shown: &mut Shown) -> SpanStatus {
        let error = step.result.as_ref().and_then(|result| result.as_ref().err());
        let class = match (error, step.status) {
            (Some(error), _) => error_class(error),
            (None, Status::Failed) => "failed",
            (None, _) => return SpanStatus::Unset,
        };
        let (status, class) = failed(class, error.map(|error| error.as_str().to_owned()), self.settings);
        shown.attributes.push(class);
        status
    }

    /// One attempt, and the times in which it waited for somebody.
    fn attempt(&mut self, step: &StepView, execution: &Execution) {
        let number = attempt_of(execution);
        let name = SpanName::Attempt(&execution.command, number);
        self.pauses(execution, self.id(name));
        let Some(end) = ended(execution).filter(|end| was_made(execution) && self.is_new(end.position))
        else {
            return;
        };
        let status = execution.lifecycle.status;
        let mut attributes = vec![
            text(aether::COMMAND, execution.command.to_string()),
            count(aether::ATTEMPT, number.into()),
            text(aether::EFFECT, step.class.as_str()),
            text(aether::STATUS, status.as_str()),
        ];
        let mut span_status = SpanStatus::Unset;
        if status == Status::Failed {
            let error = step.result.as_ref().and_then(|result| result.as_ref().err());
            let class = match (&execution.error, error) {
                (None, Some(error)) => error_class(error),
                _ => "attempt_failed",
            };
            let (failed, class) = failed(class, execution.error.clone(), self.settings);
            attributes.push(class);
            span_status = failed;
        }
        if starts_unrecorded(&[execution]) {
            attributes.push(KeyValue::new(aether::START_DERIVED, true));
        }
        let made = Made {
            id: name,
            parent: self.id(SpanName::Command(&execution.command)),
            began: began(&self.fold.timeline, execution),
            ended: end.at,
            shown: Shown { name: format!("aether.attempt {number}"), kind: SpanKind::Internal, attributes },
            status: span_status,
            links: Vec::new(),
        };
        self.push(end.position, About::Other, made);
    }

    /// The waits inside an attempt: for a callback, or for a decision about its outcome.
    fn pauses(&mut self, execution: &Execution, parent: SpanId) {
        let mut since: Option<EventTime> = None;
        for moved in &execution.lifecycle.transitions {
            match (moved.to, since) {
                (Status::Waiting, _) => since = Some(moved.moment),
                (_, Some(began)) => {
                    since = None;
                    if self.is_new(moved.moment.position) {
                        let kind = self.fold.timeline.waits.get(&began.position);
                        let kind = kind.copied().unwrap_or("resolution");
                        self.wait(kind, &execution.command, (began, moved.moment), parent);
                    }
                }
                (_, None) => {}
            }
        }
    }

    fn approval(&mut self, execution: &Execution) {
        if let Some(end) = ended(execution).filter(|end| self.is_new(end.position)) {
            let parent = self.id(SpanName::Command(&execution.command));
            let span = (execution.lifecycle.created, end);
            self.wait("approval", &execution.command, span, parent);
            if let Some(made) = self.ended.last_mut() {
                made.span.attributes.push(text(aether::STATUS, execution.lifecycle.status.as_str()));
            }
        }
    }

    fn wait(
        &mut self,
        kind: &'static str,
        command: &CommandId,
        (began, end): (EventTime, EventTime),
        parent: SpanId,
    ) {
        let attributes = vec![
            text(aether::WAIT_KIND, kind),
            text(aether::WAIT_NAME, command.name().to_owned()),
            text(aether::COMMAND, command.to_string()),
        ];
        let made = Made {
            id: SpanName::Event("wait", began.position),
            parent,
            began: began.at,
            ended: end.at,
            shown: Shown { name: format!("aether.wait {kind}"), kind: SpanKind::Internal, attributes },
            status: SpanStatus::Unset,
            links: Vec::new(),
        };
        self.push(end.position, About::Other, made);
    }

    fn scope(&mut self, path: &str, position: Position) {
        let Some(scope) = self.fold.scopes.get(path) else { return };
        let mut attributes = vec![text(aether::SCOPE, path.to_owned())];
        let (name, about) = match scope.agent(position) {
            Some(agent) => {
                attributes.push(text(gen_ai::OPERATION_NAME, operation::INVOKE_AGENT));
                attributes.push(text(gen_ai::AGENT_NAME, agent.to_owned()));
                (format!("{} {agent}", operation::INVOKE_AGENT), About::Agent)
            }
            None => (format!("aether.scope {path}"), About::Other),
        };
        let (first, at) = &scope.first;
        let executions = self.fold.executions_of(first);
        let began = executions.iter().map(|execution| began(&self.fold.timeline, execution)).min();
        let made = Made {
            id: SpanName::Scope(path),
            parent: self.around(path),
            began: began.unwrap_or(*at),
            ended: scope.last,
            shown: Shown { name, kind: SpanKind::Internal, attributes },
            status: SpanStatus::Unset,
            links: Vec::new(),
        };
        self.push(position, about, made);
    }

    /// What one claim of the run did, linked to the one before it.
    fn segment(&mut self, claim: &Piece, before: Option<&Piece>) {
        let Some(end) = claim.ended.filter(|end| self.is_new(end.position)) else { return };
        let mut attributes = vec![text(aether::SEGMENT_END, claim.how)];
        attributes.extend(claim.worker.clone().map(|worker| text(aether::WORKER, worker)));
        let link = before.map(|before| {
            let before = self.context(SpanName::Event("segment", before.began.position));
            Link::new(span_context(before, false), Vec::new(), 0)
        });
        let made = Made {
            id: SpanName::Event("segment", claim.began.position),
            parent: self.id(SpanName::Run),
            began: claim.began.at,
            ended: end.at,
            shown: Shown { name: "aether.segment".into(), kind: SpanKind::Internal, attributes },
            status: SpanStatus::Unset,
            links: link.into_iter().collect(),
        };
        self.push(end.position, About::Other, made);
    }

    fn parked(&mut self, parked: &Piece) {
        let Some(end) = parked.ended.filter(|end| self.is_new(end.position)) else { return };
        let made = Made {
            id: SpanName::Event("parked", parked.began.position),
            parent: self.id(SpanName::Run),
            began: parked.began.at,
            ended: end.at,
            shown: Shown {
                name: "aether.parked".into(),
                kind: SpanKind::Internal,
                attributes: vec![text(aether::SEGMENT_END, parked.how)],
            },
            status: SpanStatus::Unset,
            links: Vec::new(),
        };
        self.push(end.position, About::Other, made);
    }

    fn run(&mut self) {
        let view = &self.fold.view;
        let end = view.lifecycle.transitions.last().filter(|moved| moved.to.is_terminal());
        let Some(end) = end.map(|moved| moved.moment).filter(|end| self.is_new(end.position)) else { return };
        let mut attributes = vec![
            text(gen_ai::OPERATION_NAME, operation::INVOKE_WORKFLOW),
            text(gen_ai::WORKFLOW_NAME, view.workflow.clone()),
            count(aether::WORKFLOW_VERSION, view.version.into()),
            text(aether::STATUS, view.status.as_str()),
        ];
        if view.generation > 0 {
            attributes.push(count(aether::GENERATION, view.generation.into()));
        }
        let mut links = Vec::new();
        let link = |span| Link::new(span_context(span, true), Vec::new(), 0);
        if let Some(parent) = &self.fold.parent {
            attributes.push(text(aether::PARENT_RUN_ID, parent.run.to_string()));
            // In the trace of its parent it needs none.
            links.extend(parent.span.filter(|_| self.trace.parent().is_none()).map(link));
        }
        if let Some(origin) = &self.fold.origin {
            attributes.push(text(aether::ORIGIN_RUN_ID, origin.run.to_string()));
            links.extend(origin.span.map(link));
        }
        let mut status = SpanStatus::Unset;
        if view.status == Status::Failed {
            let error = view.result.as_ref().and_then(|result| result.as_ref().err());
            let message = error.map(|error| error.as_str().to_owned());
            let (failed, class) = failed("failed", message, self.settings);
            attributes.push(class);
            status = failed;
        }
        let name = format!("{} {}", operation::INVOKE_WORKFLOW, view.workflow);
        let made = Made {
            id: SpanName::Run,
            parent: self.trace.parent().map_or(SpanId::INVALID, SpanId::from_bytes),
            began: view.lifecycle.created.at,
            ended: end.at,
            shown: Shown { name, kind: SpanKind::Internal, attributes },
            status,
            links,
        };
        let about = About::Run { workflow: view.workflow.clone(), status: view.status };
        self.push(end.position, about, made);
    }
}

/// The context of a span of ours as the exporters have it.
fn span_context(context: TraceContext, remote: bool) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes(context.trace), SpanId::from_bytes(context.span));
    SpanContext::new(trace, span, TraceFlags::new(context.flags), remote, TraceState::NONE)
}

fn moved(execution: &Execution, trigger: Trigger) -> Option<EventTime> {
    execution.lifecycle.transitions.iter().find(|moved| moved.trigger == trigger).map(|moved| moved.moment)
}

fn ended(execution: &Execution) -> Option<EventTime> {
    let last = execution.lifecycle.transitions.last();
    last.filter(|moved| moved.to.is_terminal()).map(|moved| moved.moment)
}

/// Whether the body was called.
fn was_made(execution: &Execution) -> bool {
    execution.purpose == Purpose::Call && moved(execution, Trigger::Start).is_some()
}

/// Whether the journal holds no event from before the call was made: what changes nothing is recorded when it has ended.
fn starts_unrecorded(executions: &[&Execution]) -> bool {
    executions.iter().any(|execution| {
        matches!(execution.class, EffectClass::Read | EffectClass::Http | EffectClass::Transaction)
            && execution.purpose == Purpose::Call
            && moved(execution, Trigger::Start).map(|start| start.at) == ended(execution).map(|end| end.at)
    })
}

fn attempt_of(execution: &Execution) -> u32 {
    execution.id.as_str().rsplit_once('#').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// When an execution began: what the journal says, or what follows from it.
fn began(timeline: &Timeline, execution: &Execution) -> Timestamp {
    let created = execution.lifecycle.created.at;
    if execution.purpose == Purpose::Approval {
        return created;
    }
    let start = moved(execution, Trigger::Start).map(|start| start.at);
    let derived = || timeline.began(&execution.command, attempt_of(execution));
    if starts_unrecorded(&[execution]) {
        return derived().or(start).unwrap_or(created);
    }
    match start {
        // A later attempt exists from the failure of the one before it on, and begins when it is due.
        Some(start) if attempt_of(execution) > 0 => start,
        Some(start) => start.min(created),
        None => created,
    }
}
