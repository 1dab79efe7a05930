//! Trace contexts: which trace a run belongs to, and the ids of the spans that its journal is shown as.
//!
//! Promise: every id follows from the run's recorded seed, or the trace context that it was started in, and from names in
//! its journal. So they are the same after a restart, on every worker, and for whoever reads the journal.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::vocabulary::id::{CommandId, InvocationId, RunId};

/// The trace of a run.
///
/// ```
/// use aether_core::id::{CommandId, RunId};
/// use aether_core::trace::{SpanName, Trace};
///
/// let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let trace = Trace::of(Some(caller), "seed");
/// let (run, command) = (RunId::new("order-7")?, CommandId::new("0", "charge"));
/// let context = trace.context(&run, SpanName::Command(&command));
/// assert!(context.to_string().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
/// assert_eq!(context, Trace::of(Some(caller), "seed").context(&run, SpanName::Command(&command)));
/// # Ok::<(), aether_core::id::RunIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    id: [u8; 16],
    parent: Option<[u8; 8]>,
    flags: u8,
}

/// Flags of a trace that nobody said anything about: it is sampled.
const SAMPLED: u8 = 1;

impl Trace {
    /// The trace of the `traceparent` that a run was started with, or else one of its own that follows from its seed.
    pub fn of(traceparent: Option<&str>, seed: &str) -> Self {
        traceparent.and_then(Self::read).unwrap_or_else(|| {
            let mut hash = Sha256::new();
            hash.update(b"trace\0");
            hash.update(seed.as_bytes());
            Self { id: first(&hash.finalize().into()), parent: None, flags: SAMPLED }
        })
    }

    fn read(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-').skip(1);
        let (id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let id = u128::from_str_radix(id, 16).ok()?.to_be_bytes();
        let parent = u64::from_str_radix(parent, 16).ok()?.to_be_bytes();
        Some(Self { id, parent: Some(parent), flags: u8::from_str_radix(flags, 16).ok()? })
    }

    /// The trace id.
    pub fn id(&self) -> [u8; 16] {
        self.id
    }

    /// The span in which the run was started, where its caller gave one.
    pub fn parent(&self) -> Option<[u8; 8]> {
        self.parent
    }

    /// Whether the caller wants the trace to be recorded. Without a caller it is.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The context of the span of `run` that `name` names.
    pub fn context(&self, run: &RunId, name: SpanName<'_>) -> TraceContext {
        TraceContext { trace: self.id, span: name.id(run), flags: self.flags }
    }
}

/// What a span stands for. Its id follows from that and from the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanName<'a> {
    /// The run.
    Run,
    /// A scope, by its path.
    Scope(&'a str),
    /// A command, with all its attempts.
    Command(&'a CommandId),
    /// One attempt at a command, from 0.
    Attempt(&'a CommandId, u32),
    /// Something else, by the position of the event with which it began.
    Event(&'a str, u64),
}

impl SpanName<'_> {
    /// The id of the span of `run`: the first 8 bytes of a SHA-256.
    pub fn id(self, run: &RunId) -> [u8; 8] {
        let mut hash = Sha256::new();
        hash.update(run.as_str().as_bytes());
        let (kind, text) = match self {
            Self::Run => ("run", String::new()),
            Self::Scope(path) => ("scope", path.to_owned()),
            Self::Command(command) => ("command", command.to_string()),
            Self::Attempt(command, attempt) => {
                ("attempt", InvocationId::new(command, attempt).as_str().to_owned())
            }
            Self::Event(kind, position) => (kind, position.to_string()),
        };
        // A run's id may hold anything but NUL.
        for part in ["\0", kind, "\0", &text] {
            hash.update(part.as_bytes());
        }
        first(&hash.finalize().into())
    }
}

/// The first bytes of a hash. All zeros mean no id at all, which no hash is likely to be and none may be.
fn first<const N: usize>(hash: &[u8; 32]) -> [u8; N] {
    let mut id = [0; N];
    for (to, from) in id.iter_mut().zip(hash) {
        *to = *from;
    }
    if id.iter().all(|byte| *byte == 0)
        && let Some(last) = id.last_mut()
    {
        *last = 1;
    }
    id
}

/// A span as those who are called from inside it are told of it. Displays as the header `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace id.
    pub trace: [u8; 16],
    /// The span id.
    pub span: [u8; 8],
    /// The trace flags; bit 0 says that the trace is recorded.
    pub flags: u8,
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunId {
        RunId::new("order-7").unwrap()
    }

    #[test]
    fn a_run_belongs_to_the_trace_of_its_caller_or_to_one_of_its_seed() {
        let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        let trace = Trace::of(Some(caller), "seed");
        assert_eq!(trace.parent(), Some(0x00f0_67aa_0ba9_02b7_u64.to_be_bytes()));
        assert!(!trace.is_sampled());
        assert!(trace.context(&run(), SpanName::Run).to_string().ends_with("-00"));

        let own = Trace::of(None, "seed");
        assert!(own.is_sampled() && own.parent().is_none());
        assert_eq!(own, Trace::of(None, "seed"));
        assert_ne!(own.id(), Trace::of(None, "other").id());
        assert_eq!(Trace::of(Some("nonsense"), "seed"), own);
    }

    #[test]
    fn everything_that_has_a_span_has_another_id() {
        let command = CommandId::new("0", "charge");
        let names = [
            SpanName::Run,
            SpanName::Scope("0"),
            SpanName::Command(&command),
            SpanName::Attempt(&command, 0),
            SpanName::Attempt(&command, 1),
            SpanName::Event("segment", 0),
            SpanName::Event("parked", 0),
        ];
        let mut ids: Vec<_> = names.iter().map(|name| name.id(&run())).collect();
        ids.extend(names.iter().map(|name| name.id(&RunId::new("order-8").unwrap())));
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn an_id_is_never_all_zeros() {
        assert_eq!(first::<8>(&[0; 32]), [0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
