//! Two definitions of a workflow held against each other: which places of the old code a run may stand at and still fit the
//! new code.
//!
//! Promise: nothing is executed and no run is read. It is a quick answer from the shape of the code, with the lines of both
//! sides; the authority is a replay. It looks at every way through the old code, so it says "fits" of a place only where
//! each way to it is one of the new code too.

use crate::definition::diff::compare::{Compared, compare};
use crate::definition::diff::report::{DefinitionDiff, RaisedMark};
use crate::definition::owned::Definition;

mod compare;
pub(crate) mod report;
mod shape;
#[cfg(test)]
mod tests;

/// Compares two definitions of a workflow.
///
/// Compared are the awaits and the ways between them: kind, callee, effect class and branch. Arguments, conditions, names
/// given as text (`cx.llm("plan")`), types and plain functions are not, so "same" is no proof: replay the runs.
///
/// ```
/// use aether_core::definition::{Definition, Verdict, diff};
/// let before = r#"{"name": "greet", "module": "app", "version": 1, "fingerprint": "00", "file": "src/app.rs",
///     "states": [{"state": 0, "name": "cx.now", "kind": "effect", "line": 3}],
///     "edges": [{"from": "start", "to": 0, "kind": "sequence"}, {"from": 0, "to": "end", "kind": "sequence"}]}"#;
/// let after = before.replace("cx.now", "cx.uuid").replace("\"00\"", "\"11\"");
/// let diff = diff(&Definition::parse(before)?, &Definition::parse(&after)?);
/// assert_eq!(diff.places[0].verdict, Verdict::ChangedBefore);
/// assert!(diff.to_string().contains("`cx.now` at src/app.rs:3, and the new one for `cx.uuid` at src/app.rs:3"));
/// # Ok::<(), aether_core::definition::DefinitionError>(())
/// ```
pub fn diff(old: &Definition, new: &Definition) -> DefinitionDiff {
    let Compared { places, differences } = compare(old, new);
    let code = |definition: &Definition| match definition.code.as_str() {
        "" => definition.fingerprint.clone(),
        code => code.into(),
    };
    DefinitionDiff {
        workflow: new.name.clone(),
        versions: (old.version, new.version),
        code_changed: old.fingerprint != new.fingerprint || code(old) != code(new),
        places,
        differences,
        raised: raised(old, new),
    }
}

fn raised(old: &Definition, new: &Definition) -> Vec<RaisedMark> {
    let lowest = |name: &str| new.changes.iter().find(|mark| mark.name == name).map(|mark| mark.from);
    old.changes
        .iter()
        .map(|old| RaisedMark { old: old.clone(), from: lowest(&old.name) })
        .filter(|mark| mark.from.is_none_or(|from| from > mark.old.from))
        .collect()
}
