//! What metrics count: events of journals that are durable, each once in the life of the process.
//!
//! Promise: a replay appends nothing and so counts nothing.

use aether_core::journal::event::{Event, InvocationDecision};
use aether_core::view::StepView;
use jiff::Timestamp;

use crate::attributes::{Role, answer};
use crate::fold::Fold;
use crate::registry::{
    CLAIM_DELAY, LLM_COST, LLM_TOKENS, RUN_SECONDS, RUNS_ENDED, RUNS_STARTED, Registry, STEP_RETRIES,
    STEP_SECONDS, STEPS, UNKNOWN,
};
use crate::semconv::gen_ai::metric;
use crate::semconv::{gen_ai, general};
use crate::spans::{About, Ended};

/// Counts an event that `fold` is about to take in. `is_first` says that nothing of the run was counted before, by whatever
/// process: it may have continued as new by then.
pub(crate) fn event(registry: &Registry, fold: &Fold, is_first: bool, at: Timestamp, event: &Event) {
    match event {
        Event::RunCreated(e) if is_first && fold.trace().is_none() => {
            registry.add(RUNS_STARTED, vec![("workflow", e.workflow.clone())], 1.0);
        }
        Event::RunRequeued(_) => {
            if let Some(due) = fold.due().filter(|due| *due <= at) {
                let workflow = vec![("workflow", fold.view.workflow.clone())];
                registry.observe(CLAIM_DELAY, workflow, at.duration_since(due).as_secs_f64());
            }
        }
        Event::StepRetried(e) => {
            registry.add(STEP_RETRIES, vec![("step", e.command.name().to_owned())], 1.0);
        }
        Event::InvocationResolved(e) => {
            let decision = match e.decision {
                InvocationDecision::Happened => "happened",
                InvocationDecision::DidNotHappen => "did_not_happen",
                InvocationDecision::InDoubt => "fail",
                InvocationDecision::Retry => "retry",
                InvocationDecision::Ask => "ask",
            };
            let labels = vec![("policy", decision.to_owned()), ("step", e.command.name().to_owned())];
            registry.add(UNKNOWN, labels, 1.0);
        }
        _ => {}
    }
}

/// Counts what a span stands for.
pub(crate) fn span(registry: &Registry, ended: &Ended) {
    match &ended.about {
        About::Run { workflow, status } => {
            let labels = vec![("status", status.as_str().to_owned()), ("workflow", workflow.clone())];
            registry.add(RUNS_ENDED, labels.clone(), 1.0);
            registry.observe(RUN_SECONDS, labels, ended.seconds());
            convention(registry, metric::WORKFLOW_DURATION, ended, &[gen_ai::WORKFLOW_NAME]);
        }
        About::Agent => {
            convention(registry, metric::INVOKE_AGENT_DURATION, ended, &[gen_ai::AGENT_NAME]);
        }
        About::Command { step, role } => command(registry, ended, step, *role),
        About::Other => {}
    }
}

fn command(registry: &Registry, ended: &Ended, step: &StepView, role: Role) {
    if !role.has_attempts() && role != Role::Child {
        return;
    }
    let outcome = step.outcome.map_or_else(|| step.status.as_str(), |outcome| outcome.as_str());
    let name = || ("step", step.command.name().to_owned());
    let class = || ("class", step.class.as_str().to_owned());
    registry.add(STEPS, vec![class(), ("outcome", outcome.to_owned()), name()], 1.0);
    registry.observe(STEP_SECONDS, vec![class(), name()], ended.seconds());
    match role {
        Role::Model => {
            let keys = [gen_ai::PROVIDER_NAME, gen_ai::REQUEST_MODEL, gen_ai::RESPONSE_MODEL];
            convention(registry, metric::CLIENT_OPERATION_DURATION, ended, &keys);
            tokens(registry, step);
        }
        Role::Tool => convention(registry, metric::EXECUTE_TOOL_DURATION, ended, &[gen_ai::TOOL_NAME]),
        _ => {}
    }
}

#[allow(clippy::cast_precision_loss, reason = "tokens beyond 2^53 are out of reach")]
fn tokens(registry: &Registry, step: &StepView) {
    let Some(answer) = answer(step) else { return };
    let usage = &answer.usage;
    let kinds = [
        ("input", usage.input_tokens),
        ("output", usage.output_tokens),
        ("cache_read", usage.cached_tokens),
        ("reasoning", usage.reasoning_tokens),
    ];
    for (kind, tokens) in kinds.into_iter().filter(|(_, tokens)| *tokens > 0) {
        let labels = vec![("kind", kind.to_owned()), ("model", answer.model.clone())];
        registry.add(LLM_TOKENS, labels, tokens as f64);
    }
    if let Some(cost) = &answer.cost {
        let labels = vec![("currency", cost.currency.to_string()), ("model", answer.model.clone())];
        registry.add(LLM_COST, labels, cost.nanos as f64 / 1e9);
    }
}

/// A duration under its name in the conventions, with attributes of the span.
fn convention(registry: &Registry, name: &'static str, ended: &Ended, keys: &[&'static str]) {
    let mut labels = Vec::new();
    for key in keys.iter().copied().chain([gen_ai::OPERATION_NAME, general::ERROR_TYPE]) {
        let value = ended.span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        labels.extend(value.map(|attribute| (key, attribute.value.to_string())));
    }
    registry.mirror(name, &labels, ended.seconds());
}
