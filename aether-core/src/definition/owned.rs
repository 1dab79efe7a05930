//! A definition as a value of its own: what a program says of a workflow, kept as JSON, and read back by another build.
//!
//! Promise: a reader ignores fields that it does not know, and refuses what it cannot understand with a typed error. A
//! definition that was read refers to no state that it does not have.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::definition::def::{Change, END, Edge, START, State, StateKind, WorkflowDef};
use crate::definition::linked::{LinkedCode, combined, combined_of, linked_as, reached};
use crate::vocabulary::outcome::EffectClass;

/// The newest form of a definition that this build reads and writes.
const FORMAT: u32 = 1;

/// The state machine of one version of a workflow, with what is known of the functions that it calls.
///
/// ```
/// # use aether_core::definition::{Definition, DefinitionError};
/// # fn read(text: &str) -> Result<(), DefinitionError> {
/// let definition = Definition::parse(text)?;
/// println!("{} v{} has {} states", definition.name, definition.version, definition.states.len());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Definition {
    /// Form of this value; rises when an old reader would misunderstand a new one.
    #[serde(default = "first_format")]
    pub format: u32,
    /// Name, which the versions of one workflow share.
    pub name: String,
    /// Module path of the workflow.
    pub module: String,
    /// Number of the version.
    pub version: u32,
    /// Fingerprint of the function alone.
    pub fingerprint: String,
    /// Fingerprint with all that runs inside of it; see [`combined_fingerprint`](crate::definition::combined_fingerprint).
    #[serde(default)]
    pub code: String,
    /// Its doc comment.
    #[serde(default)]
    pub doc: String,
    /// Source file.
    #[serde(default)]
    pub file: String,
    /// Line of the function.
    #[serde(default)]
    pub line: u32,
    /// Every await of the body, in source order.
    pub states: Vec<DefinedState>,
    /// Every way from one state to the next.
    pub edges: Vec<Edge>,
    /// Checks that were switched off.
    #[serde(default)]
    pub allows: Vec<DefinedAllow>,
    /// The marks of changes in the body: `cx.version(..)`.
    #[serde(default)]
    pub changes: Vec<DefinedChange>,
    /// The steps and workflows whose code is part of `code`.
    #[serde(default)]
    pub linked: Vec<DefinedCode>,
}

/// One await of a workflow's body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefinedState {
    /// Its number, which is its place in the list.
    pub state: u16,
    /// What is awaited: the called function or the method on the context.
    pub name: String,
    /// What shape the awaited expression has.
    pub kind: StateKind,
    /// Line of the await.
    #[serde(default)]
    pub line: u32,
    /// Column of the await, from 1.
    #[serde(default)]
    pub column: u32,
    /// The number of the branch closure that holds it.
    #[serde(default)]
    pub branch: Option<u16>,
    /// Name in the journal of the step that is called, where only one step has the name of the function.
    #[serde(default)]
    pub step: Option<String>,
    /// Effect class of that step.
    #[serde(default, deserialize_with = "known_class")]
    pub class: Option<EffectClass>,
    /// Fingerprint of the workflow that runs inside of this call.
    #[serde(default)]
    pub inline: Option<String>,
}

/// A check that was switched off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefinedAllow {
    /// Which check.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// A mark of a change, and for which of its versions the code still has a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinedChange {
    /// Name of the mark.
    pub name: String,
    /// The lowest version that the code has a path for.
    pub from: u32,
    /// The highest one.
    pub to: u32,
    /// Whether it has a version for each time that it is asked for, and not one for the run.
    #[serde(default)]
    pub each: bool,
    /// Line of its first place in the source.
    #[serde(default)]
    pub line: u32,
}

/// A step or workflow whose code is part of a workflow's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefinedCode {
    /// Name of the function.
    pub function: String,
    /// Name in the journal.
    pub name: String,
    /// Fingerprint of the function, or of a step's declaration.
    pub fingerprint: String,
    /// Effect class of a step; `None` for a workflow.
    #[serde(default, deserialize_with = "known_class")]
    pub class: Option<EffectClass>,
}

/// Why a definition cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// A newer build wrote it.
    #[error(
        "the definition has form {format}, and this build reads forms up to {known}: use the build that wrote it, or a newer one"
    )]
    Newer {
        /// Its form.
        format: u32,
        /// The newest form that this build knows.
        known: u32,
    },
    /// It is no definition, or a damaged one.
    #[error("the text is no definition of a workflow: {reason}")]
    Broken {
        /// What is wrong with it.
        reason: String,
    },
}

impl DefinedChange {
    fn of(Change { name, from, to, each, line }: &Change) -> Self {
        Self { name: (*name).into(), from: *from, to: *to, each: *each, line: *line }
    }
}

impl Definition {
    /// What this program says of a workflow.
    pub fn of(def: &WorkflowDef) -> Self {
        let reached = reached(def);
        let numbered = (0_u16..).zip(def.states);
        Self {
            format: FORMAT,
            name: def.name.into(),
            module: def.module.into(),
            version: def.version,
            fingerprint: def.fingerprint.into(),
            code: combined(def.fingerprint, &reached),
            doc: def.doc.into(),
            file: def.file.into(),
            line: def.line,
            states: numbered.map(|(number, state)| DefinedState::of(number, state)).collect(),
            edges: def.edges.to_vec(),
            allows: def
                .allows
                .iter()
                .map(|allow| DefinedAllow { what: allow.what.into(), reason: allow.reason.into() })
                .collect(),
            changes: def.changes.iter().map(DefinedChange::of).collect(),
            linked: reached.into_iter().map(DefinedCode::of).collect(),
        }
    }

    /// Reads a definition that [`Definition::to_json`] or [`WorkflowDef::json`] wrote, in this build or in another one.
    ///
    /// # Errors
    /// [`DefinitionError`] when a newer build wrote it, or it is damaged.
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let broken = |error: serde_json::Error| DefinitionError::Broken { reason: error.to_string() };
        // The form first: what a newer one holds may not be readable at all.
        let value: Value = serde_json::from_str(text).map_err(broken)?;
        let format = value.get("format").and_then(Value::as_u64).unwrap_or(FORMAT.into());
        let format = u32::try_from(format).unwrap_or(u32::MAX);
        if format > FORMAT {
            return Err(DefinitionError::Newer { format, known: FORMAT });
        }
        let definition: Self = serde_json::from_value(value).map_err(broken)?;
        definition.check().map_err(|reason| DefinitionError::Broken { reason })?;
        Ok(definition)
    }

    /// The definition as JSON. The start is the state `"start"`, the end `"end"`; the others are numbers.
    pub fn to_json(&self) -> Value {
        // Strings, numbers and lists of them: there is nothing that does not serialize.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// `file:line` of a state.
    pub fn site(&self, state: u16) -> Option<String> {
        self.states.get(usize::from(state)).map(|state| format!("{}:{}", self.file, state.line))
    }

    fn check(&self) -> Result<(), String> {
        if let Some((at, state)) =
            self.states.iter().enumerate().find(|(at, state)| usize::from(state.state) != *at)
        {
            return Err(format!("the state in place {at} has number {}", state.state));
        }
        let known = |place: u16| matches!(place, START | END) || usize::from(place) < self.states.len();
        match self.edges.iter().find(|edge| !known(edge.from) || !known(edge.to)) {
            Some(edge) => Err(format!("a way from {} to {} without such a state", edge.from, edge.to)),
            None => Ok(()),
        }
    }
}

impl DefinedState {
    fn of(number: u16, state: &State) -> Self {
        let callees = match state.kind {
            StateKind::Call => linked_as(state.name),
            _ => &[],
        };
        let step = match callees {
            [only] if only.class.is_some() => Some(*only),
            _ => None,
        };
        let inline: Vec<String> =
            callees.iter().filter(|code| code.class.is_none()).map(|code| combined_of(code)).collect();
        Self {
            state: number,
            name: state.name.into(),
            kind: state.kind,
            line: state.line,
            column: state.column,
            branch: state.branch,
            step: step.map(|step| step.name.into()),
            class: step.and_then(|step| step.class),
            inline: (!inline.is_empty()).then(|| inline.join("+")),
        }
    }
}

impl DefinedCode {
    fn of(code: &LinkedCode) -> Self {
        Self {
            function: code.function.into(),
            name: code.name.into(),
            fingerprint: code.fingerprint.into(),
            class: code.class,
        }
    }
}

fn first_format() -> u32 {
    1
}

/// A class, or `None` for one that a newer build has.
fn known_class<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<EffectClass>, D::Error> {
    let class = Option::<Value>::deserialize(deserializer)?;
    Ok(class.and_then(|class| serde_json::from_value(class).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::def::{Allow, EdgeKind};

    const fn state(name: &'static str, branch: Option<u16>) -> State {
        State { name, kind: StateKind::Call, line: 7, column: 3, branch }
    }

    static DEF: WorkflowDef = WorkflowDef {
        name: "triage",
        module: "app::flows",
        doc: "Doc.",
        version: 2,
        fingerprint: "0011223344556677",
        file: "src/flows.rs",
        line: 5,
        states: &[state("search", None), state("rank", Some(0))],
        edges: &[
            Edge { from: START, to: 0, kind: EdgeKind::Sequence },
            Edge { from: 0, to: END, kind: EdgeKind::EarlyReturn },
        ],
        changes: &[],
        allows: &[Allow { what: "clock", reason: "for the log" }],
    };

    fn broken(edit: impl FnOnce(&mut Value)) -> String {
        let mut json = Definition::of(&DEF).to_json();
        edit(&mut json);
        Definition::parse(&json.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn a_definition_survives_the_way_through_text() {
        let definition = Definition::of(&DEF);
        assert_eq!(Definition::parse(&definition.to_json().to_string()), Ok(definition.clone()));
        assert_eq!(definition.site(1).as_deref(), Some("src/flows.rs:7"));
        assert_eq!(definition.code, DEF.fingerprint);
    }

    #[test]
    fn fields_kinds_and_classes_of_a_newer_build_are_passed_over() {
        let mut json = Definition::of(&DEF).to_json();
        json["tomorrow"] = Value::from(1);
        json["states"][0]["kind"] = Value::from("teleport");
        json["states"][0]["class"] = Value::from("quantum");
        json["edges"][0]["kind"] = Value::from("tunnel");
        let read = Definition::parse(&json.to_string()).unwrap();
        assert_eq!(read.states[0].kind, StateKind::Other);
        assert_eq!(read.states[0].class, None);
        assert_eq!(read.edges[0].kind, EdgeKind::Sequence);
    }

    #[test]
    fn what_an_older_build_left_out_is_empty() {
        let text = r#"{"name":"a","module":"m","version":1,"fingerprint":"00","states":[],"edges":[]}"#;
        let read = Definition::parse(text).unwrap();
        assert_eq!((read.format, read.code.as_str(), read.linked.len()), (1, "", 0));
    }

    #[test]
    fn a_newer_form_is_refused_whatever_it_holds() {
        let error = Definition::parse(r#"{"format": 7, "states": "none"}"#).unwrap_err();
        assert_eq!(error, DefinitionError::Newer { format: 7, known: FORMAT });
        assert!(Definition::parse(r#"{"format": 99999999999}"#).unwrap_err().to_string().contains("newer"));
    }

    #[test]
    fn a_damaged_definition_is_refused_with_what_is_wrong() {
        assert!(Definition::parse("").unwrap_err().to_string().contains("no definition"));
        assert!(broken(|json| json["edges"][0]["to"] = Value::from(9)).contains("to 9"));
        assert!(broken(|json| json["edges"][0]["to"] = Value::from("nowhere")).contains("nowhere"));
        assert!(broken(|json| json["edges"][0]["to"] = Value::from(99_999)).contains("no definition"));
        assert!(broken(|json| json["states"][1]["state"] = Value::from(0)).contains("place 1"));
        assert!(broken(|json| json["name"] = Value::Null).contains("null"));
    }
}
