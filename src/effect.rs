//! Recorded effects and the values they record: for signatures that name them, and for crates that add effects.

pub use aether_core::outcome::{EffectClass, Outcome};
pub use aether_core::payload::{Digest, Payload, PayloadError};
pub use aether_core::step::{
    Body, BodyError, BodyResult, Callback, CallbackError, CallbackPending, ProbeResult, Tool,
};
pub use aether_core::workflow::{
    BoxEffect, Child, ChildRun, DetachedRun, Each, EachBody, Effect, Planner, Racer, Recorded, Signal,
    StartedChild,
};
