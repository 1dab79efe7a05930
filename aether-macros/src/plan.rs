//! What the attributes found and found to be right: plans, of which [`crate::expand`] makes code.
//!
//! Promise: only [`crate::check`] makes a plan, so expansion cannot fail.

use proc_macro2::TokenStream;
use syn::{Attribute, Block, Expr, Generics, Ident, Path, Type, Visibility};

use crate::diagnostics::report::Warning;
use crate::parse::item::Owner;

/// A checked item.
pub(crate) enum Plan {
    Step(Box<StepPlan>),
    Workflow(Box<WorkflowPlan>),
}

/// An item with mistakes: its public shape, so that its callers still compile, and what is wrong.
pub(crate) struct Rejected {
    pub(crate) errors: TokenStream,
    pub(crate) form: Stub,
}

/// What is emitted in place of an item with mistakes.
pub(crate) enum Stub {
    /// The same type, trait and call, with bodies that are never reached.
    Step(Box<Shape>),
    Workflow(Box<Shape>),
    /// The function without its body: a method cannot become a type.
    Method(TokenStream, bool),
}

/// What steps and workflows have in common.
pub(crate) struct Shape {
    /// Path of the `aether` crate.
    pub(crate) krate: Path,
    pub(crate) vis: Visibility,
    /// Name of the function that workflows call.
    pub(crate) function: Ident,
    /// Name of the type: the function's, or `Owner_function`.
    pub(crate) ident: Ident,
    /// The type whose associated function it is.
    pub(crate) owner: Option<Owner>,
    /// Name in the journal.
    pub(crate) name: String,
    pub(crate) line: u32,
    pub(crate) attrs: Attrs,
    /// Type and const parameters; `impl Trait` arguments have names here.
    pub(crate) generics: Generics,
    /// The context parameter as the user wrote it; a pure step has none.
    pub(crate) context: Option<Context>,
    pub(crate) args: Vec<Arg>,
    pub(crate) ret: Type,
    pub(crate) allows: Vec<Allow>,
    pub(crate) warnings: Vec<Warning>,
}

/// The attributes of an item, sorted by where they go.
#[derive(Default)]
pub(crate) struct Attrs {
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) docs: Vec<Attribute>,
    /// The doc comment as text.
    pub(crate) doc: String,
    /// For callers: `deprecated`, `must_use`.
    pub(crate) call: Vec<Attribute>,
    /// For the body: all others.
    pub(crate) body: Vec<Attribute>,
}

/// The context parameter.
pub(crate) struct Context {
    pub(crate) ident: Ident,
    /// Parameter as written, without attributes.
    pub(crate) param: TokenStream,
    pub(crate) ty: Type,
}

/// One argument.
pub(crate) struct Arg {
    pub(crate) ident: Ident,
    pub(crate) mutable: bool,
    /// Name in the record.
    pub(crate) name: String,
    pub(crate) doc: String,
    /// The type as written.
    pub(crate) ty: Type,
    /// The type with the lifetime of the call, for the call function of a workflow.
    pub(crate) call_ty: Type,
    /// The type that is decoded from the record.
    pub(crate) owned: Type,
    pub(crate) pass: Pass,
}

/// How the owned form of an argument is handed to the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Owned,
    /// `&arg`
    Ref,
    /// `arg.as_ref()`
    AsRef,
    /// `arg.as_deref()`
    AsDeref,
}

/// A check that was switched off.
pub(crate) struct Allow {
    pub(crate) what: String,
    pub(crate) reason: String,
}

/// A checked step.
pub(crate) struct StepPlan {
    pub(crate) shape: Shape,
    pub(crate) options: StepOptions,
    /// The signature as a text.
    pub(crate) signature: String,
    pub(crate) body: Block,
}

/// Under which path a step is known to journals and ledgers, where that is not its own.
pub(crate) struct FormerPath {
    /// Its module, where it is not the step's own.
    pub(crate) module: Option<String>,
    pub(crate) function: String,
}

/// What `#[step(..)]` says.
pub(crate) struct StepOptions {
    pub(crate) of: Option<FormerPath>,
    pub(crate) effect: Effect,
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Timeout>,
    pub(crate) on_unknown: Option<OnUnknown>,
    pub(crate) irreversible: bool,
    pub(crate) idempotent: bool,
    pub(crate) key: Option<ArgumentClosure>,
    pub(crate) probe: Option<Path>,
    pub(crate) approval: Option<Approval>,
    /// The type of the step that undoes this one.
    pub(crate) compensate: Option<Path>,
    pub(crate) scope: Option<KeyScope>,
    /// Kinds of resources; none when the option is not given.
    pub(crate) changes: Vec<String>,
    pub(crate) confirm: Option<Confirm>,
    /// In milliseconds.
    pub(crate) heartbeat: Option<u64>,
    /// Name of the limit on steps that calls count in.
    pub(crate) limit: Option<String>,
    /// Types of values that the body takes from the program: declared, and seen in it.
    pub(crate) needs: Vec<Type>,
}

impl StepOptions {
    /// The closures over arguments, by the names of their options.
    pub(crate) fn closures(&self) -> impl Iterator<Item = (&'static str, &ArgumentClosure)> {
        let approval = match &self.approval {
            Some(Approval::ByArguments(closure)) => Some(&**closure),
            Some(Approval::Required) | None => None,
        };
        let key = self.key.as_ref().map(|key| ("key", key));
        key.into_iter().chain(approval.map(|closure| ("approval", closure)))
    }
}

/// Contact with the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Pure,
    Read,
    Llm,
    Tool,
    External,
    Http,
    Transaction,
}

impl Effect {
    pub(crate) const ALL: &[(&str, Self)] = &[
        ("pure", Self::Pure),
        ("read", Self::Read),
        ("llm", Self::Llm),
        ("tool", Self::Tool),
        ("external", Self::External),
        ("http", Self::Http),
        ("transaction", Self::Transaction),
    ];

    pub(crate) fn changes_world(self) -> bool {
        matches!(self, Self::Tool | Self::External | Self::Http)
    }

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, effect)| *effect == self).map_or("", |(name, _)| name)
    }
}

/// When another attempt is made. Durations in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Retry {
    /// Retries after the first attempt.
    pub(crate) max_retries: u32,
    pub(crate) patience: Option<u64>,
    pub(crate) delay: u64,
    pub(crate) factor: f64,
    pub(crate) max_delay: u64,
    /// From 0 to 1.
    pub(crate) jitter: f64,
}

/// How long an attempt may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    None,
    Millis(u64),
}

/// What happens when an outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnUnknown {
    Fail,
    Ask,
    Retry,
    Probe,
}

impl OnUnknown {
    pub(crate) const ALL: &[(&str, Self)] =
        &[("fail", Self::Fail), ("ask", Self::Ask), ("retry", Self::Retry), ("probe", Self::Probe)];
}

/// Within what a business key is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyScope {
    Run,
    Store,
}

impl KeyScope {
    pub(crate) const ALL: &[(&str, Self)] = &[("run", Self::Run), ("store", Self::Store)];
}

/// What happens where a changed resource is not as it was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirm {
    Strict,
    Warn,
    Ask,
}

impl Confirm {
    pub(crate) const ALL: &[(&str, Self)] =
        &[("strict", Self::Strict), ("warn", Self::Warn), ("ask", Self::Ask)];
}

/// When a person must agree.
pub(crate) enum Approval {
    Required,
    ByArguments(Box<ArgumentClosure>),
}

/// A closure over arguments: `key = |args| body`, `approval = |args| body`.
pub(crate) struct ArgumentClosure {
    /// The named arguments, each with the type its parameter gives, if any.
    pub(crate) params: Vec<(Ident, Option<Type>)>,
    pub(crate) body: Expr,
}

/// A checked workflow.
pub(crate) struct WorkflowPlan {
    pub(crate) shape: Shape,
    pub(crate) version: Version,
    /// 64-bit FNV-1a of the function's tokens, in hexadecimal.
    pub(crate) fingerprint: String,
    /// Names of functions in the body.
    pub(crate) mentions: Vec<String>,
    pub(crate) states: Vec<State>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) changes: Vec<Change>,
    /// Types of values that the body takes from the program.
    pub(crate) needs: Vec<Type>,
    /// The body with every await behind the gate.
    pub(crate) body: Block,
}

/// Which version of a workflow it is.
pub(crate) struct Version {
    pub(crate) number: u32,
    /// The module of the workflow, where it is another than the function's.
    pub(crate) module: Option<String>,
}

/// One await.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) name: String,
    pub(crate) kind: StateKind,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) branch: Option<u16>,
}

/// A mark: where the code was changed while runs were open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// It has a version for each time it is asked for.
    pub(crate) each: bool,
    pub(crate) line: u32,
}

/// The shape of an awaited expression, as in `aether_core::def`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateKind {
    Call,
    Effect,
    Join,
    Race,
    Each,
    Child,
    Other,
}

/// The state before the first await.
pub(crate) const START: u16 = u16::MAX - 1;
/// The state after the last.
pub(crate) const END: u16 = u16::MAX;

/// A way from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) kind: EdgeKind,
}

/// Why control may go this way, as in `aether_core::def`. The greater one names a way that is made of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EdgeKind {
    Sequence,
    Branch,
    Loop,
    EarlyReturn,
    Fork,
}
