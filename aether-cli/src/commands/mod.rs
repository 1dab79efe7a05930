//! The commands: each asks the engine, and prints what it answers.
//!
//! Promise: whatever changes something is a call of the engine with an actor, where the engine records one.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod check_code;
pub(crate) mod db;
pub(crate) mod decide;
#[cfg(feature = "web")]
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod editor;
pub(crate) mod end;
pub(crate) mod evidence;
pub(crate) mod exchange;
pub(crate) mod filter;
pub(crate) mod fork;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod inbox;
pub(crate) mod ledger;
pub(crate) mod list;
pub(crate) mod print;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod signal;
pub(crate) mod start;
pub(crate) mod streams;
pub(crate) mod target;
pub(crate) mod verify;
pub(crate) mod wait;
#[cfg(feature = "web")]
pub(crate) mod web;
