//! Which workflows a program has.
//!
//! Promise: no two of one module share a name.

use crate::engine::build_error::BuildError;
use crate::run::program::RegisteredWorkflow;
use crate::sched::HashMap;

/// The workflows that are linked into the program, and `extra`, by name.
pub(super) fn registry(
    extra: &[RegisteredWorkflow],
) -> Result<HashMap<&'static str, Vec<RegisteredWorkflow>>, BuildError> {
    let mut registry: HashMap<&'static str, Vec<RegisteredWorkflow>> = HashMap::new();
    let linked = inventory::iter::<RegisteredWorkflow>.into_iter().copied();
    for workflow in linked.chain(extra.iter().copied()) {
        let (name, module) = (workflow.def.name, workflow.def.module);
        let named = registry.entry(name).or_default();
        if named.iter().any(|known| known.is_same(&workflow)) {
            continue;
        }
        if let Some(former) = named.iter().find(|known| known.def.module == module) {
            return Err(BuildError::DuplicateWorkflow {
                name,
                module,
                first: former.def.line,
                second: workflow.def.line,
            });
        }
        named.push(workflow);
    }
    Ok(registry)
}
