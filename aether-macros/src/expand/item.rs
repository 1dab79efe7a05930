//! A plan to code, and a rejected item to its messages and a stub.

use quote::quote;

use super::code::Expansion;
use super::{step, workflow};
use crate::plan::{Plan, Rejected, Stub};

/// The code of a checked item.
pub(crate) fn expand_plan(plan: &Plan) -> Expansion {
    match plan {
        Plan::Step(step) => step::step_item(step),
        Plan::Workflow(workflow) => workflow::workflow_item(workflow),
    }
}

/// The messages, and an item of the same public shape.
pub(crate) fn expand_rejected(rejected: &Rejected) -> Expansion {
    let errors = &rejected.errors;
    let mut code = match &rejected.form {
        Stub::Method(function, true) => Expansion { inside: function.clone(), ..Expansion::default() },
        Stub::Method(function, false) => Expansion { outside: function.clone(), ..Expansion::default() },
        Stub::Step(shape) => step::step_stub(shape),
        Stub::Workflow(shape) => workflow::workflow_stub(shape),
    };
    // A message inside an `impl` block would have to be an item of it.
    let outside = code.outside;
    code.outside = quote!(#errors #outside);
    code
}
