//! What workflow code sees: its context, effects, branches, plans, children, waits.
//!
//! Promise: effects are made from `&mut Cx` one at a time, and nothing but a recorded effect can be awaited. Imports
//! `perform` and below.

pub(crate) mod ask;
pub(crate) mod branch;
pub(crate) mod child;
mod compensate;
pub(crate) mod context;
pub(crate) mod definition;
pub(crate) mod gate;
pub(crate) mod plan;
pub(crate) mod signal;
pub(crate) mod ticket;
pub(crate) mod wait;

pub use ask::{ApprovalRequest, Question};
pub use branch::{Branches, Each, Fork, Racers};
pub use child::{Child, ChildRun};
pub use context::{Cx, call_step, inline_workflow, workflow_code};
pub use definition::Workflow;
pub use gate::{BoxEffect, Effect, Phase, Recorded, current_run, gate, phase};
pub use signal::Signal;
