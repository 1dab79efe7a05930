//! `cx.agent(..)`: a model in a loop with tools, every one of whose calls is a recorded command.
//!
//! Promise: killed anywhere, an agent resumes with the call it had not finished and repeats none. What a model gets
//! wrong (an unknown tool, bad arguments) and what a tool fails with is told to the model. A call whose outcome is
//! unknown is not: the agent stops with it, because a model would make the call again. Who answers after a hand-off, and
//! what a compaction replaces, follows from recorded answers alone.

pub(crate) mod builder;
pub(crate) mod compaction;
pub(crate) mod hand_off;
pub(crate) mod history;
pub(crate) mod report;
pub(crate) mod running;
pub(crate) mod spec;
pub(crate) mod team;
pub(crate) mod toolbox;
pub(crate) mod tools;

pub use builder::{Agent, CxAgent};
pub use compaction::Compaction;
pub use report::{AgentAnswer, AgentReport, HandOff, Progress};
pub use spec::AgentSpec;
pub use toolbox::{RuntimeTool, RuntimeTools, Toolbox};
pub use tools::{IntoTools, Parallel};
