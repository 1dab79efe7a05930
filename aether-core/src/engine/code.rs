//! Which code an engine has: the ids under which its store keeps its runs.
//!
//! Promise: two workflows have the same id exactly if module, name, version and combined fingerprint are equal.

use std::sync::PoisonError;

use crate::definition::def::WorkflowDef;
use crate::definition::linked::combined_fingerprint;
use crate::sched::HashMap;
use crate::vocabulary::code::RunCode;
use crate::vocabulary::id::CodeId;

/// Combined fingerprints by module, name, version and the workflow's own fingerprint.
type Fingerprints = HashMap<(&'static str, &'static str, u32, &'static str), String>;

/// The fingerprint of a definition with all that runs inside of it. It follows from what is linked, and is computed once.
fn fingerprint(def: &'static WorkflowDef) -> String {
    #[allow(
        clippy::disallowed_types,
        reason = "a cache of what is fixed: no task learns from it what another one did"
    )]
    static KNOWN: std::sync::OnceLock<std::sync::Mutex<Fingerprints>> = std::sync::OnceLock::new();
    let mut known = KNOWN.get_or_init(Default::default).lock().unwrap_or_else(PoisonError::into_inner);
    let entry = known.entry((def.module, def.name, def.version, def.fingerprint));
    entry.or_insert_with(|| combined_fingerprint(def)).clone()
}

/// The code of a workflow that is linked into this program, as a journal names it.
pub(crate) fn run_code(def: &'static WorkflowDef) -> RunCode {
    RunCode {
        workflow: def.name.into(),
        module: def.module.into(),
        version: def.version,
        fingerprint: fingerprint(def),
    }
}

/// The code of a workflow that is linked into this program.
pub(crate) fn code_of(def: &'static WorkflowDef) -> CodeId {
    run_code(def).id()
}
