//! Every error that a program may handle, beside the [`Failure`](crate::Failure) and the
//! [`StepError`](crate::StepError) that workflows see; and the pages of the compiler's diagnostic codes.
//!
//! Errors of stores are in [`store`](crate::store), those of operators' decisions in [`people`](crate::people).

mod explain;

pub use aether_core::deps::MissingDep;
pub use aether_core::engine::{
    BuildError, ForeignStep, ForkError, PrepareError, RunError, StartError, VerifyError,
};
pub use aether_core::failure::{ErrorHints, InContext, KeyHolder, KnownError, KnownReport, Unconfirmed};
pub use aether_core::inbox::SendError;
pub use aether_core::labels::LabelError;
pub use aether_core::limits::OverLimit;
pub use aether_core::outcome::{Classify, FailureClass};
pub use aether_core::run::{
    CommandSummary, ContinueError, Divergence, Fault, Unreadable, ValueChange, ValueChanges,
};
pub use aether_core::waiting::TimeLimit;
pub use explain::{codes, explain};
