//! What puts bodies into the trace context of their attempts.
//!
//! Promise: it is told which attempt, and changes nothing about what is recorded.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

use crate::step::body::BodyResult;
use crate::vocabulary::trace::TraceContext;

/// The call of a body that is put into its trace context.
pub type TracedBody = BoxFuture<'static, BodyResult>;

/// Puts the body of each attempt into its trace context. For crates of telemetry.
///
/// ```
/// use aether_core::step::{TraceBodies, TracedBody};
/// use aether_core::trace::TraceContext;
/// use tracing::{Instrument as _, Span, info_span};
///
/// /// Says in every line of a body to which span it belongs.
/// #[derive(Debug)]
/// struct Named;
///
/// impl TraceBodies for Named {
///     fn around(&self, attempt: &TraceContext, _: &Span, body: TracedBody) -> TracedBody {
///         Box::pin(body.instrument(info_span!("traced", %attempt)))
///     }
/// }
/// ```
pub trait TraceBodies: Send + Sync + Debug + 'static {
    /// Wraps a body. `attempt` is the context of its attempt, and `span` the `tracing` span of that attempt, which the
    /// returned future is polled in; it is disabled where nobody listens.
    fn around(&self, attempt: &TraceContext, span: &tracing::Span, body: TracedBody) -> TracedBody;
}
