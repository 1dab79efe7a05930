//! Which workflows a program has, and which of them a recorded run belongs to.
//!
//! Promise: every lookup of a workflow goes through [`Registry::find`]. Workflows of one name in one module are versions
//! of one workflow, and no two of them share a number.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::build_error::BuildError;
use crate::engine::code::code_of;
use crate::run::program::RegisteredWorkflow;
use crate::sched::{HashMap, OnceLock};
use crate::vocabulary::id::CodeId;

/// The workflows of a program, by name.
#[derive(Debug, Default)]
pub(super) struct Registry {
    named: HashMap<&'static str, Vec<RegisteredWorkflow>>,
    /// The codes of all of them, each once: every claim asks for them.
    codes: BTreeSet<CodeId>,
    /// Their names, sorted: every look for what is due asks for them.
    names: OnceLock<Arc<[String]>>,
}

impl Registry {
    /// The workflows that are linked into the program, and `extra`, except for those in `without`.
    pub(super) fn of_program(
        extra: &[RegisteredWorkflow],
        without: &[RegisteredWorkflow],
    ) -> Result<Self, BuildError> {
        let mut registry = Self::default();
        let linked = RegisteredWorkflow::linked().copied().chain(extra.iter().copied());
        for workflow in linked.filter(|linked| !without.iter().any(|left_out| left_out.is_same(linked))) {
            if let Some(known) = registry.same_version(&workflow) {
                return Err(duplicate(&known, &workflow));
            }
            registry.add(workflow);
        }
        Ok(registry)
    }

    /// Adds a workflow, unless the program has it.
    pub(super) fn add(&mut self, workflow: RegisteredWorkflow) {
        let named = self.named.entry(workflow.def.name).or_default();
        if !named.iter().any(|known| known.is_same(&workflow)) {
            named.push(workflow);
            self.names = OnceLock::default();
            self.codes.insert(code_of(workflow.def));
        }
    }

    /// Another workflow that has the name, the module and the version of this one.
    fn same_version(&self, workflow: &RegisteredWorkflow) -> Option<RegisteredWorkflow> {
        let def = workflow.def;
        let same = |known: &&RegisteredWorkflow| {
            (known.def.module, known.def.version) == (def.module, def.version) && !known.is_same(workflow)
        };
        self.named.get(def.name)?.iter().find(same).copied()
    }

    /// The workflow that continues a run which was recorded as `version` of the workflow `name` in `module`: that very
    /// version, or the newest one where it is not linked. `None` where two instances of one generic workflow fit.
    pub(super) fn find(&self, name: &str, module: &str, version: u32) -> Option<RegisteredWorkflow> {
        let versions = self.versions(name, module);
        let newest = versions.last()?.def.version;
        let is_linked = versions.iter().any(|known| known.def.version == version);
        let wanted = if is_linked { version } else { newest };
        let mut fitting = versions.into_iter().filter(|known| known.def.version == wanted);
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// The versions of one workflow, oldest first: those of `module`. A workflow that was moved to another module is
    /// found as long as its name is unique.
    pub(super) fn versions(&self, name: &str, module: &str) -> Vec<RegisteredWorkflow> {
        let named = self.named.get(name).map(Vec::as_slice).unwrap_or_default();
        let is_here = named.iter().any(|known| known.def.module == module);
        let first = named.first().map(|first| first.def.module);
        let only = first.filter(|first| named.iter().all(|known| known.def.module == *first));
        let module = if is_here { Some(module) } else { only };
        let mut versions: Vec<_> =
            named.iter().filter(|known| Some(known.def.module) == module).copied().collect();
        versions.sort_by_key(|known| known.def.version);
        versions
    }

    /// Whether there is a workflow of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.named.contains_key(name)
    }

    /// Whether workflows of several modules have this name.
    pub(super) fn has_namesakes(&self, name: &str) -> bool {
        let named = self.named.get(name).map(Vec::as_slice).unwrap_or_default();
        named.windows(2).any(|pair| matches!(pair, [one, other] if one.def.module != other.def.module))
    }

    /// The names of all workflows, sorted.
    pub(super) fn names(&self) -> Arc<[String]> {
        let sorted = || {
            let mut names: Vec<_> = self.named.keys().map(ToString::to_string).collect();
            names.sort_unstable();
            names.into()
        };
        Arc::clone(self.names.get_or_init(sorted))
    }

    /// The codes of all workflows, each once.
    pub(super) fn codes(&self) -> Vec<CodeId> {
        self.codes.iter().cloned().collect()
    }

    /// All workflows with all their versions.
    pub(super) fn all(&self) -> impl Iterator<Item = &RegisteredWorkflow> {
        self.named.values().flatten()
    }
}

fn duplicate(first: &RegisteredWorkflow, second: &RegisteredWorkflow) -> BuildError {
    let place = |workflow: &RegisteredWorkflow| format!("{}:{}", workflow.def.file, workflow.def.line);
    let def = second.def;
    BuildError::DuplicateWorkflow {
        name: def.name,
        module: def.module,
        version: def.version,
        first: place(first),
        second: place(second),
    }
}
