//! Which code an engine has: the ids under which its store keeps its runs.
//!
//! Promise: two definitions have the same id exactly if module, name, version and fingerprint are equal.

use std::collections::BTreeSet;

use crate::definition::def::WorkflowDef;
use crate::run::program::RegisteredWorkflow;
use crate::vocabulary::code::RunCode;
use crate::vocabulary::id::CodeId;

/// The code of a workflow that is linked into this program.
pub(crate) fn code_of(def: &WorkflowDef) -> CodeId {
    CodeId::of(def.module, def.name, def.version, def.fingerprint)
}

/// The codes of `workflows`, each once.
pub(crate) fn codes_of<'w>(workflows: impl Iterator<Item = &'w RegisteredWorkflow>) -> Vec<CodeId> {
    let codes: BTreeSet<_> = workflows.map(|workflow| code_of(workflow.def)).collect();
    codes.into_iter().collect()
}

/// The code of a workflow that is linked into this program, as a journal names it.
pub(crate) fn run_code(def: &WorkflowDef) -> RunCode {
    RunCode {
        workflow: def.name.into(),
        module: def.module.into(),
        version: def.version,
        fingerprint: def.fingerprint.into(),
    }
}
