//! The functions that are linked into a program, by name, and the fingerprint of a workflow together with all that runs
//! inside of it.
//!
//! Promise: where a workflow calls another one by its name, an edit of either changes the [`combined_fingerprint`] of the
//! caller. Functions are found by name alone, so there may be more of them than the code calls, never fewer of those that
//! it names.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};

use crate::definition::def::WorkflowDef;
use crate::vocabulary::outcome::EffectClass;

/// A workflow or step as `#[workflow]` and `#[step]` register it: what its code is, and which functions it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedCode {
    /// Name of the function, which need not be its name in the journal.
    pub function: &'static str,
    /// Name in the journal.
    pub name: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line of the function.
    pub line: u32,
    /// Of a workflow its own fingerprint; of a step one of its signature and its options. A step's body is not part of it.
    pub fingerprint: &'static str,
    /// The names of functions in the body of a workflow.
    pub mentions: &'static [&'static str],
    /// Effect class of a step; `None` for a workflow.
    pub class: Option<EffectClass>,
}

/// What one attribute registers: the function that tells it. So checking a program evaluates nothing of it.
#[derive(Clone, Copy)]
pub struct Linked(pub fn() -> LinkedItem);

/// What is linked by one attribute.
#[derive(Clone, Copy)]
pub struct LinkedItem {
    /// Its code.
    pub code: LinkedCode,
    /// What the engine runs of it; of something generic, nothing.
    pub item: Option<&'static (dyn Any + Send + Sync)>,
}

/// What is known of the source of a workflow, beside its definition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mentioned {
    /// Name of the function.
    pub function: &'static str,
    /// The names of functions in its body.
    pub mentions: &'static [&'static str],
}

impl Debug for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Linked").field(&self.0().code).finish()
    }
}

impl Debug for LinkedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LinkedItem").field(&self.code).finish()
    }
}

inventory::collect!(Linked);

/// Everything of type `T` that attributes have registered.
pub(crate) fn linked_items<T: Any>() -> impl Iterator<Item = &'static T> {
    inventory::iter::<Linked>.into_iter().filter_map(|linked| linked.0().item?.downcast_ref())
}

/// Everything that is linked.
#[derive(Default)]
struct Index {
    by_function: BTreeMap<&'static str, Vec<&'static LinkedCode>>,
    /// By file and line.
    by_place: BTreeMap<(&'static str, u32), Vec<&'static LinkedCode>>,
}

fn index() -> &'static Index {
    // What is linked does not change while the program runs.
    #[allow(clippy::disallowed_types, reason = "no task meets another one here")]
    static INDEX: std::sync::OnceLock<Index> = std::sync::OnceLock::new();
    #[allow(clippy::disallowed_types, reason = "no task meets another one here")]
    static CODES: std::sync::OnceLock<Vec<LinkedCode>> = std::sync::OnceLock::new();
    INDEX.get_or_init(|| {
        let linked = inventory::iter::<Linked>.into_iter();
        Index::of(CODES.get_or_init(|| linked.map(|linked| linked.0().code).collect()))
    })
}

impl Index {
    fn of(all: impl IntoIterator<Item = &'static LinkedCode>) -> Self {
        let mut index = Self::default();
        for code in all {
            index.by_function.entry(code.function).or_default().push(code);
            index.by_place.entry((code.file, code.line)).or_default().push(code);
        }
        index
    }

    fn named(&self, function: &str) -> &[&'static LinkedCode] {
        self.by_function.get(function).map(Vec::as_slice).unwrap_or_default()
    }

    /// What the code at a place names, and what that names, without itself; by function and fingerprint.
    fn reached(&self, (file, line, fingerprint): Place<'_>) -> Vec<&'static LinkedCode> {
        let is_own =
            |code: &LinkedCode| (code.file, code.line, code.fingerprint) == (file, line, fingerprint);
        let here = self.by_place.get(&(file, line)).into_iter().flatten().filter(|code| is_own(code));
        let mut open: Vec<&'static str> = here.flat_map(|code| code.mentions).copied().collect();
        let mut seen = BTreeSet::new();
        let mut found: Vec<&'static LinkedCode> = Vec::new();
        while let Some(function) = open.pop() {
            if seen.insert(function) {
                for code in self.named(function).iter().filter(|code| !is_own(code)) {
                    open.extend(code.mentions);
                    found.push(code);
                }
            }
        }
        found.sort_by_key(|code| (code.function, code.fingerprint));
        found
    }
}

/// File, line and fingerprint of a function.
type Place<'a> = (&'a str, u32, &'a str);

/// What is linked under the name of a function.
pub(super) fn linked_as(function: &str) -> &'static [&'static LinkedCode] {
    index().named(function)
}

/// The workflows and steps that the code of `def` names, and those that these workflows name, without itself; by function
/// and fingerprint.
pub(super) fn reached(def: &WorkflowDef) -> Vec<&'static LinkedCode> {
    index().reached((def.file, def.line, def.fingerprint))
}

/// The fingerprint of a workflow with everything that runs inside of it: the workflows that it calls inline, those that they
/// call, and the declarations of all steps among them. Without any of these it is the workflow's own fingerprint.
///
/// A call is found by the name of the function. It is missed where a function is imported under another name outside of a
/// `#[workflow_mod]`, where a method or a plain function makes the call for the workflow, and where an other macro than
/// `#[workflow]` writes it. What plain functions do is never part of a fingerprint.
///
/// It follows the calls each time: a program that asks often keeps the answer.
///
/// ```
/// # use aether_core::definition::combined_fingerprint;
/// # use aether_core::definition::def::WorkflowDef;
/// static DEF: WorkflowDef = WorkflowDef {
///     name: "hello", module: "app", doc: "", version: 1, fingerprint: "0011223344556677", file: "src/app.rs", line: 1,
///     states: &[], edges: &[], changes: &[], allows: &[],
/// };
/// assert_eq!(combined_fingerprint(&DEF), DEF.fingerprint);
/// ```
pub fn combined_fingerprint(def: &WorkflowDef) -> String {
    combined(def.fingerprint, &reached(def))
}

/// The combined fingerprint of a workflow that is linked.
pub(super) fn combined_of(code: &LinkedCode) -> String {
    combined(code.fingerprint, &index().reached((code.file, code.line, code.fingerprint)))
}

/// A fingerprint with the code that is reached from there.
pub(super) fn combined(fingerprint: &str, reached: &[&LinkedCode]) -> String {
    if reached.is_empty() {
        return fingerprint.into();
    }
    let lines: BTreeSet<(&str, &str, &str)> =
        reached.iter().map(|code| (code.function, code.name, code.fingerprint)).collect();
    let mut hash = fnv(OFFSET, fingerprint);
    for (function, name, code) in lines {
        for part in ["\n", function, " ", name, " ", code] {
            hash = fnv(hash, part);
        }
    }
    format!("{hash:016x}")
}

/// Start of a 64-bit FNV-1a, the hash that the macros use too.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(
        function: &'static str,
        line: u32,
        fingerprint: &'static str,
        mentions: &'static [&'static str],
    ) -> LinkedCode {
        LinkedCode { function, name: function, file: "src/app.rs", line, fingerprint, mentions, class: None }
    }

    /// The combined fingerprint of the first of `program`, which is leaked: a test ends soon.
    fn fingerprint_in(program: &[LinkedCode]) -> String {
        let program: &'static [LinkedCode] = Box::leak(program.to_vec().into_boxed_slice());
        let first = program[0];
        let reached = Index::of(program).reached((first.file, first.line, first.fingerprint));
        combined(first.fingerprint, &reached)
    }

    #[test]
    fn an_edit_two_calls_away_changes_it_and_an_edit_elsewhere_does_not() {
        let program = [
            code("flow", 1, "aa", &["first", "unknown"]),
            code("first", 2, "bb", &["second"]),
            code("second", 3, "cc", &[]),
            code("other", 4, "dd", &["flow"]),
        ];
        let before = fingerprint_in(&program);
        let edited = |at: usize| {
            let mut edited = program;
            edited[at].fingerprint = "ee";
            fingerprint_in(&edited)
        };
        assert_eq!(before.len(), 16);
        assert_eq!(before, fingerprint_in(&program));
        assert_ne!(before, edited(0));
        assert_ne!(before, edited(1));
        assert_ne!(before, edited(2));
        assert_eq!(before, edited(3));
    }

    #[test]
    fn workflows_that_call_each_other_end_the_search() {
        let program = [code("flow", 1, "aa", &["flow", "back"]), code("back", 2, "bb", &["flow", "back"])];
        assert_ne!(fingerprint_in(&program), "aa");
        assert_eq!(fingerprint_in(&[code("alone", 1, "aa", &["alone"])]), "aa");
    }

    #[test]
    fn the_order_of_linking_and_the_place_of_a_callee_do_not_matter() {
        let forth = [code("flow", 1, "aa", &["x", "y"]), code("x", 2, "bb", &[]), code("y", 3, "cc", &[])];
        let back = [code("flow", 1, "aa", &["y", "x"]), code("y", 9, "cc", &[]), code("x", 8, "bb", &[])];
        assert_eq!(fingerprint_in(&forth), fingerprint_in(&back));
    }

    #[test]
    fn its_meaning_is_frozen() {
        let program = [code("flow", 1, "aa", &["x"]), code("x", 2, "bb", &[])];
        assert_eq!(fingerprint_in(&program), "dc99bec1b96ad047");
    }
}
