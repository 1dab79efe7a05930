//! What generated code calls. Not a public interface: it may change in any release.

pub mod marks;
mod order;

pub use futures_util::future::BoxFuture;
pub use inventory;

pub use self::order::{GoneThrough, InAnyOrder, OwnOrder, TakesIn, asked, asked_of};
pub use crate::definition::def::{
    Allow, Approval, Change, Confirm, Edge, EdgeKind, KeyScope, OnUnknown, Probe, Retry, State, StateKind,
    StepDef, StepOptions, WorkflowDef,
};
pub use crate::definition::linked::{Linked, LinkedCode};
pub use crate::run::program::RegisteredWorkflow;
pub use crate::step::body::{ErrorClass, RegisteredStep, Step, Undo, linked_step};
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

/// Finds the class of a returned error: its own where it implements [`Classify`], else [`FailureClass::Unclassified`].
/// Call as `(&ClassOf(&returned)).class_of()`.
#[derive(Debug)]
pub struct ClassOf<'a, R>(pub &'a R);

/// The class of an error that implements [`Classify`].
pub trait ClassOfKnown {
    /// What the error itself says.
    fn class_of(&self) -> ErrorClass;
}

impl<T, E: Classify> ClassOfKnown for ClassOf<'_, Result<T, E>> {
    fn class_of(&self) -> ErrorClass {
        ErrorClass::of(self.0)
    }
}

/// The class of any other error.
pub trait ClassOfOther {
    /// Always unclassified.
    fn class_of(&self) -> ErrorClass;
}

impl<R> ClassOfOther for &ClassOf<'_, R> {
    fn class_of(&self) -> ErrorClass {
        ErrorClass::default()
    }
}

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
