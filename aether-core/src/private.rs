//! What generated code calls. Not a public interface: it may change in any release.

pub mod marks;
mod order;

use std::marker::PhantomData;

pub use futures_util::future::BoxFuture;
pub use inventory;

pub use self::order::{GoneThrough, InAnyOrder, OwnOrder, TakesIn, asked, asked_of};
pub use crate::definition::def::{
    Allow, Approval, Change, Confirm, Edge, EdgeKind, KeyScope, OnUnknown, Probe, Retry, State, StateKind,
    StepDef, StepOptions, WorkflowDef,
};
pub use crate::definition::linked::{Linked, LinkedCode, LinkedItem, Mentioned};
pub use crate::run::program::RegisteredWorkflow;
pub use crate::step::body::{Declared, ErrorClass, RegisteredStep, Step, Undo, linked_step};
pub use crate::step::context::StepCx;
pub use crate::step::recordable::{
    Answers, ArgsDecoder, ArgsEncoder, Argument, Recordable, RecordableError, Returns, Signature, Taken,
    taken,
};
pub use crate::step::shapes::{Former, FormerOf, Shaped, former, read_shapes};
pub use crate::step::tool::{Tool, ToolSchema};
pub use crate::vocabulary::deps::{MissingDepsAllowed, Need};
pub use crate::vocabulary::failure::{Failure, StepError};
pub use crate::vocabulary::outcome::{Classify, EffectClass, FailureClass};
pub use crate::vocabulary::payload::{Payload, PayloadError};
pub use crate::workflow::config::CONFIG_PATH;
pub use crate::workflow::context::{Cx, call_step, inline_workflow, step_body, workflow_body};
pub use crate::workflow::definition::{Workflow, linked_workflow};
pub use crate::workflow::gate::{BoxEffect, as_workflow_code, gate, gate_call, gate_local};

/// Finds the class of an error in what a step returns: the error's own where it implements [`Classify`], else
/// [`FailureClass::Unclassified`]. With [`ClassOfOther`] in scope, `ClassOf::<R>::CLASSIFY` is the function that does.
#[derive(Debug)]
pub struct ClassOf<R>(PhantomData<fn() -> R>);

impl<T, E: Classify> ClassOf<Result<T, E>> {
    /// What the error itself says.
    pub const CLASSIFY: fn(&Result<T, E>) -> ErrorClass = ErrorClass::of;
}

/// The class of any other error.
pub trait ClassOfOther<R> {
    /// Always unclassified.
    const CLASSIFY: fn(&R) -> ErrorClass = |_| ErrorClass::default();
}

impl<R> ClassOfOther<R> for ClassOf<R> {}

/// What encoding and decoding give.
pub type Coded<T> = Result<T, PayloadError>;

/// A context that steps and workflows are called on: that of a workflow or of one of its branches.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` does not call steps or workflows: a step's body is one recorded effect",
    label = "expected the `Cx` of a workflow",
    note = "call both steps from the workflow, or move what they share into a plain async function that both bodies call"
)]
pub trait AsCx {
    /// The context.
    fn as_cx(&mut self) -> &mut Cx;
}

impl AsCx for Cx {
    fn as_cx(&mut self) -> &mut Cx {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<C: AsCx + ?Sized> AsCx for &mut C {
    fn as_cx(&mut self) -> &mut Cx {
        (**self).as_cx()
    }
}

/// A step that can undo a call: its arguments are `A`, those of the undone step followed by the optional output.
#[diagnostic::on_unimplemented(
    message = "the step `{Self}` cannot undo this one, because its arguments are not `{A}`",
    label = "takes other arguments",
    note = "the step named by `compensate` takes the arguments of the step it undoes, in their order, and then `Option<Output>`: `None` where that step failed half-way"
)]
pub trait Undoes<A> {
    /// The call of this step that undoes another one.
    fn undo(args: &A) -> Undo;
}

#[diagnostic::do_not_recommend]
impl<A, S: Step<Args = A>> Undoes<A> for S {
    fn undo(args: &A) -> Undo {
        Undo::of::<S>(args)
    }
}

/// A type with a JSON Schema, as a bound that mentions a lifetime: `where for<'a> T: Describable<'a>` on a function is
/// checked where the function is called, so a step whose arguments have no schema compiles as long as it is not used as
/// a tool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no JSON Schema, so a step with such an argument cannot be a tool for a model",
    label = "no schema",
    note = "derive `schemars::JsonSchema` for it"
)]
pub trait Describable<'a>: schemars::JsonSchema {}

impl<T: schemars::JsonSchema + ?Sized> Describable<'_> for T {}
