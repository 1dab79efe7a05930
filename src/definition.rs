//! What `#[step]` and `#[workflow]` declare and implement: for generic code, and for tools that read definitions.
//!
//! A step's attribute fills in a [`StepDef`], a workflow's a [`WorkflowDef`]; the traits [`Step`] and [`Workflow`] are
//! implemented for the type named like the function, and [`Signature`], from which both have the types of [`Returning`].
//!
//! A [`Definition`] is a workflow's as a value of its own, which another build reads back; [`diff`] compares two of them.

pub use aether_core::definition::def::*;
pub use aether_core::definition::{
    DefinedAllow, DefinedChange, DefinedCode, DefinedState, Definition, DefinitionDiff, DefinitionError,
    Difference, PlaceDiff, RaisedMark, Site, Verdict, combined_fingerprint, diff,
};
pub use aether_core::step::{
    Answers, Declared, ErrorClass, Recordable, RecordableError, Returning, Returns, Signature, Step,
};
pub use aether_core::workflow::Workflow;
