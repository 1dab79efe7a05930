//! What the linked steps and workflows need from their program, checked when the engine starts.
//!
//! Promise: a value that a definition declares and that the program does not provide is reported before any run is
//! claimed, with its type and with every step and workflow that takes it.

use std::fmt;

use crate::definition::def::StateKind;
use crate::run::program::RegisteredWorkflow;
use crate::step::body::RegisteredStep;
use crate::vocabulary::deps::{Deps, MissingDepsAllowed, Need};

/// What an effect on the context of a workflow needs from the program. A crate that adds such an effect submits it with
/// `inventory::submit!`.
#[derive(Clone, Copy, Debug)]
pub struct EffectNeed {
    /// Name of the method on the context, such as `llm`.
    pub effect: &'static str,
    /// The value that it takes.
    pub need: Need,
    /// The call on the engine's builder that provides it.
    pub remedy: &'static str,
}

inventory::collect!(EffectNeed);

/// Lets every engine of a program start though values that linked steps take are not provided, for the reason given. For
/// test programs that link more steps than each of their engines runs; for one engine, see
/// [`EngineBuilder::allow_missing_deps`](crate::engine::EngineBuilder::allow_missing_deps).
///
/// ```
/// aether_core::allow_missing_deps!("each test runs one of many workflows");
/// ```
#[macro_export]
macro_rules! allow_missing_deps {
    ($reason:literal) => {
        const _: () = {
            $crate::private::inventory::submit! { $crate::private::MissingDepsAllowed($reason) }
        };
    };
}

/// Which of the needs are checked.
#[derive(Debug, Default)]
pub(crate) struct NeedsCheck {
    pub(crate) off: bool,
    /// Paths of steps that are not checked.
    pub(crate) without: Vec<&'static str>,
}

/// A value that is not provided, and what takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingNeed {
    /// Name of its type.
    pub wanted: &'static str,
    /// The call on the engine's builder that provides it.
    pub remedy: String,
    /// The steps and workflows that take it, each with its place: ``step `app::send` (src/main.rs:12)``.
    pub taken_by: Vec<String>,
}

impl fmt::Display for MissingNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, taken by {}: call `{}`", self.wanted, self.taken_by.join(", "), self.remedy)
    }
}

/// The lines of an error about `missing`.
pub(crate) fn listed(missing: &[MissingNeed]) -> String {
    missing.iter().map(|need| format!("\n  {need}")).collect()
}

impl NeedsCheck {
    fn is_off(&self) -> bool {
        self.off || inventory::iter::<MissingDepsAllowed>.into_iter().next().is_some()
    }

    /// Whether what a step needs is checked.
    pub(crate) fn covers(&self, step: &RegisteredStep) -> bool {
        !self.is_off() && !self.without.contains(&step.def.path) && !is_merged(step.def.path)
    }

    /// What is declared and not among `deps`.
    pub(crate) fn check<'a>(
        &self,
        steps: impl Iterator<Item = &'a RegisteredStep>,
        workflows: impl Iterator<Item = &'a RegisteredWorkflow>,
        deps: &Deps,
    ) -> Vec<MissingNeed> {
        if self.is_off() {
            return Vec::new();
        }
        let mut missing = Missing { deps, found: Vec::new() };
        for step in steps.filter(|step| self.covers(step)) {
            let taker = format!("step `{}` ({}:{})", step.def.path, step.def.file, step.def.line);
            step.needs.iter().for_each(|need| missing.look(need, None, &taker));
        }
        workflows
            .filter(|workflow| !is_merged(workflow.def.module))
            .for_each(|workflow| missing.look_for(workflow));
        let mut found = missing.found;
        found.sort_by_key(|need| need.wanted);
        found.iter_mut().for_each(|need| need.taken_by.sort());
        found
    }
}

/// Whether something stands in an example of documentation. The compiler merges examples that have nothing to do with each
/// other into one program, so what one of them takes is no need of another.
fn is_merged(path: &str) -> bool {
    path.starts_with("doctest_bundle_")
}

/// What is missing so far.
struct Missing<'a> {
    deps: &'a Deps,
    found: Vec<MissingNeed>,
}

impl Missing<'_> {
    fn look(&mut self, need: &Need, remedy: Option<&str>, taker: &str) {
        if self.deps.has(need) {
            return;
        }
        let wanted = need.type_name();
        let known = self.found.iter_mut().find(|missing| missing.wanted == wanted);
        match known {
            Some(known) if known.taken_by.iter().any(|known| known == taker) => {}
            Some(known) => known.taken_by.push(taker.to_owned()),
            None => {
                let remedy = remedy.map_or_else(|| provide(wanted), str::to_owned);
                self.found.push(MissingNeed { wanted, remedy, taken_by: vec![taker.to_owned()] });
            }
        }
    }

    /// What the workflow takes itself, and what the effects take that it awaits.
    fn look_for(&mut self, workflow: &RegisteredWorkflow) {
        let def = workflow.def;
        let at = |line: u32| format!("workflow `{}::{}` ({}:{line})", def.module, def.name, def.file);
        workflow.needs.iter().for_each(|need| self.look(need, None, &at(def.line)));
        for state in def.states.iter().filter(|state| state.kind == StateKind::Effect) {
            let Some(effect) = state.name.strip_prefix("cx.") else { continue };
            for declared in inventory::iter::<EffectNeed>.into_iter().filter(|known| known.effect == effect) {
                self.look(&declared.need, Some(declared.remedy), &at(state.line));
            }
        }
    }
}

/// The call that provides a value of this type: that of a trait object names its type.
fn provide(wanted: &str) -> String {
    match wanted.contains("dyn ") {
        true => format!(".provide::<{wanted}>(..)"),
        false => ".provide(..)".to_owned(),
    }
}
