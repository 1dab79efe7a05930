//! What workflow code uses: its context, effects, branches, plans, child runs, durable waits.
//!
//! Promise: effects are made from `&mut Cx` one at a time, and nothing but a recorded effect can be awaited. Imports
//! `perform` and below.

// rustdoc lists the methods of `Cx` in the order of its files, so the files stand in the order of need.
pub(crate) mod context;

mod draws;

pub(crate) mod branch;
mod each;

pub(crate) mod signal;

pub(crate) mod ask;

pub(crate) mod child;

mod started_child;

pub(crate) mod plan;
mod reading;

mod compensate;

mod continue_as_new;

pub(crate) mod config;

mod version;

pub(crate) mod definition;
pub(crate) mod gate;
pub(crate) mod ticket;
pub(crate) mod wait;

pub use ask::{ApprovalRequest, Question};
pub use branch::{Branches, Fork, Racer, Racers};
pub use child::{Child, ChildRun};
pub use context::{Cx, call_step, inline_workflow, step_body, workflow_body};
pub use definition::Workflow;
pub use each::{Each, EachBody};
#[cfg(aether_dst)]
pub use gate::Polled;
pub use gate::{BoxEffect, Effect, Phase, Recorded, current_run, gate, phase};
pub use plan::Planner;
pub use signal::Signal;
pub use started_child::{DetachedRun, StartedChild};
