//! What a program brings: steps, recordable values, the context of a body, tools for models.
//!
//! Promise: a body reaches the engine only through its context, and the context knows no run. Imports `store` and below.

pub(crate) mod body;
pub(crate) mod callback;
pub(crate) mod cancellation;
pub(crate) mod contents;
pub(crate) mod context;
pub(crate) mod heartbeat;
pub(crate) mod interceptor;
pub(crate) mod keeping;
pub(crate) mod over;
pub(crate) mod recordable;
pub(crate) mod redacting;
pub(crate) mod request_keys;
pub(crate) mod shapes;
pub(crate) mod store_waits;
pub(crate) mod tool;
pub(crate) mod tool_approval;
pub(crate) mod traced;

pub use body::{
    Admission, Body, BodyError, BodyResult, Declared, ErrorClass, Estimating, ProbeResult, RegisteredStep,
    Step, StepBody, Undo, encode_result,
};
pub use callback::{Callback, CallbackError, CallbackPending};
pub use contents::NoContents;
pub use context::{Changed, StepCx};
pub use interceptor::{BodyCall, Interceptor};
pub use recordable::{
    Answers, ArgsDecoder, ArgsEncoder, Argument, Recordable, RecordableError, Returning, Returns, Signature,
};
pub use redacting::redacted_here;
pub use tool::{Tool, ToolSchema};
pub use traced::{TraceBodies, TracedBody};
