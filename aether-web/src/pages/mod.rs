//! The pages of a console, and what their forms do.
//!
//! Promise: a page reads, and a form calls the engine once with the name of who sent it. What a page shows was escaped.

pub(crate) mod actions;
pub(crate) mod cards;
pub(crate) mod cost;
pub(crate) mod fields;
pub(crate) mod fork;
pub(crate) mod graph;
pub(crate) mod inbox;
pub(crate) mod journal;
pub(crate) mod login;
pub(crate) mod model;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod shell;
pub(crate) mod step;
pub(crate) mod tool_question;
pub(crate) mod workers;
pub(crate) mod workflows;
