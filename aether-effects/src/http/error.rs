//! Why an HTTP exchange gave no usable answer, and what that says about the world.

use std::fmt;
use std::time::Duration;

use aether_core::failure::{ErrorHints, KnownError};
use aether_core::outcome::{Classify, FailureClass};

/// Which exchange an error is about: method and masked URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Method of the request, in capitals.
    pub method: String,
    /// URL of the request, with its secrets masked.
    pub url: String,
}

impl Exchange {
    /// Whether a request of this method may change the world.
    pub fn changes_world(&self) -> bool {
        !matches!(&*self.method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}

/// Why an HTTP exchange gave no usable answer. `?` turns it into a `Failure` of the right class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The request cannot be built; nothing was sent.
    #[error("{exchange}: the request cannot be built: {reason}")]
    Invalid {
        /// Method and URL of the request.
        exchange: Exchange,
        /// What is wrong with it.
        reason: String,
    },
    /// No connection came about: refused, unknown host, no agreement on TLS. Nothing was sent.
    #[error("{exchange}: no connection: {reason}")]
    NotConnected {
        /// Method and URL of the request.
        exchange: Exchange,
        /// What the transport reported: refused, unknown host, or the failure of TLS.
        reason: String,
    },
    /// No whole answer within the timeout; the request may have been received.
    #[error("{exchange}: no answer within {timeout:?}")]
    Timeout {
        /// Method and URL of the request.
        exchange: Exchange,
        /// The time the exchange was given.
        timeout: Duration,
    },
    /// The connection broke before the whole answer was there; the request may have been received.
    #[error("{exchange}: the connection broke before the answer was complete: {reason}")]
    Lost {
        /// Method and URL of the request.
        exchange: Exchange,
        /// What the transport reported.
        reason: String,
    },
    /// The answer is over the limit.
    #[error(
        "{exchange}: the body of the answer is over the limit of {limit} bytes (`HttpClientBuilder::max_body`, for a download `max_download`)"
    )]
    TooLarge {
        /// Method and URL of the request.
        exchange: Exchange,
        /// The limit in bytes.
        limit: usize,
    },
    /// The run is being cancelled, and the request changes nothing or still waited for its host: it was dropped.
    #[error("{exchange}: dropped, because the run is being cancelled")]
    Cancelled {
        /// Method and URL of the request.
        exchange: Exchange,
    },
    /// The body of the step is over, and what it left behind sends nothing in its name: the request was not sent, or was
    /// dropped where it changes nothing.
    #[error("{exchange}: stopped: the body of the step is over; await the request in the body")]
    Over {
        /// Method and URL of the request.
        exchange: Exchange,
    },
    /// The host asked other requests to wait, for longer than this one would wait itself. Nothing was sent.
    #[error("{exchange}: not sent: the host asked to be left alone, for another {left:?}")]
    Held {
        /// Method and URL of the request.
        exchange: Exchange,
        /// How much longer.
        left: Duration,
    },
    /// The request had no place in the line before its host when it would have waited too long. Nothing was sent.
    #[error("{exchange}: not sent: it had no place at its host after {waited:?} (`HostLimit`)")]
    Queued {
        /// Method and URL of the request.
        exchange: Exchange,
        /// How long it has waited.
        waited: Duration,
    },
    /// The engine redacts what is recorded, and would not look into a download. Nothing was sent.
    #[error(
        "{exchange}: not sent: the engine redacts what is recorded, and a download is kept as it comes; say so with `.unredacted()`"
    )]
    Unredacted {
        /// Method and URL of the request.
        exchange: Exchange,
    },
    /// A cassette is played back, and the request is not on it. Nothing was sent.
    #[error("{exchange}: the request is refused: {refusal}")]
    NotRecorded {
        /// Method and URL of the request.
        exchange: Exchange,
        /// The request, and those that are on the cassette.
        refusal: String,
    },
    /// The server is still at work on an earlier sending of this request: status 409, with a body that speaks of the
    /// idempotency key. What that comes to is not known yet; the same request under the same key will tell.
    #[error("{exchange}: an earlier sending of this request is still in progress: {start:?}")]
    InProgress {
        /// Method and URL of the request.
        exchange: Exchange,
        /// How long the server asks to wait, if it said so.
        retry_after: Option<Duration>,
        /// First characters of the body.
        start: String,
    },
    /// The server has seen this idempotency key with another request: status 422, with a body that speaks of the key. This
    /// sending did nothing; an earlier one of the same call, which another build of the program wrote, may have done it.
    #[error("{exchange}: the server knows this idempotency key from another request: {start:?}")]
    KeyMismatch {
        /// Method and URL of the request.
        exchange: Exchange,
        /// First characters of the body.
        start: String,
    },
    /// The server answered with an error status. Made by `error_for_status` only.
    #[error("{exchange}: status {status}; the body starts {start:?}")]
    Status {
        /// Method and URL of the request.
        exchange: Exchange,
        /// Status code of the answer, 400 or above.
        status: u16,
        /// How long the server asks to wait, if it said so.
        retry_after: Option<Duration>,
        /// First characters of the body.
        start: String,
    },
    /// The body is not what was asked for.
    #[error("{exchange}: the answer is not a `{wanted}`: {reason}; it starts {start:?}")]
    Shape {
        /// Method and URL of the request.
        exchange: Exchange,
        /// Rust type that was asked for.
        wanted: &'static str,
        /// What the decoder said.
        reason: String,
        /// First characters of the body.
        start: String,
    },
}

impl HttpError {
    /// Method and URL of the request that failed.
    pub fn exchange(&self) -> &Exchange {
        match self {
            Self::Invalid { exchange, .. }
            | Self::NotConnected { exchange, .. }
            | Self::Timeout { exchange, .. }
            | Self::Lost { exchange, .. }
            | Self::TooLarge { exchange, .. }
            | Self::Cancelled { exchange }
            | Self::Over { exchange }
            | Self::Held { exchange, .. }
            | Self::Queued { exchange, .. }
            | Self::Unredacted { exchange }
            | Self::NotRecorded { exchange, .. }
            | Self::InProgress { exchange, .. }
            | Self::KeyMismatch { exchange, .. }
            | Self::Status { exchange, .. }
            | Self::Shape { exchange, .. } => exchange,
        }
    }
}

impl Classify for HttpError {
    /// A request that may have changed the world without telling how is `Unknown`: its outcome must not be taken for
    /// a failure.
    fn class(&self) -> FailureClass {
        let changes_world = self.exchange().changes_world();
        match self {
            Self::Invalid { .. } | Self::NotRecorded { .. } | Self::Unredacted { .. } | Self::Over { .. } => {
                FailureClass::Permanent
            }
            // Both say that the server has seen the key before: what came of that sending is not said.
            Self::InProgress { .. } | Self::KeyMismatch { .. } => FailureClass::Unknown,
            Self::NotConnected { .. } | Self::Cancelled { .. } | Self::Held { .. } | Self::Queued { .. } => {
                FailureClass::Retryable
            }
            Self::Status { status: 425 | 429, .. } => FailureClass::Retryable,
            // Both are also answered where the work had begun: a handler that ran too long is dropped half-way with 408, and
            // a proxy says 503 of a server that broke off after it had the request, whatever its `Retry-After`.
            Self::Status { status: 408 | 503, .. } if changes_world => FailureClass::Unknown,
            Self::Status { status: 408, .. } => FailureClass::Retryable,
            Self::Status { status, .. } if *status < 500 => FailureClass::Permanent,
            _ if changes_world => FailureClass::Unknown,
            Self::Timeout { .. } | Self::Lost { .. } | Self::Status { .. } => FailureClass::Retryable,
            Self::TooLarge { .. } | Self::Shape { .. } => FailureClass::Permanent,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } | Self::InProgress { retry_after, .. } => *retry_after,
            Self::Held { left, .. } => Some(*left),
            _ => None,
        }
    }
}

inventory::submit! {
    KnownError(|error| error.downcast_ref::<HttpError>().map(ErrorHints::of))
}

inventory::submit! { KnownError(|error| error.downcast_ref::<reqwest::Error>().map(of_raw)) }

// Whatever was awaited in it was dropped, and may have been done.
inventory::submit! {
    KnownError(|error| {
        error.downcast_ref::<tokio::time::error::Elapsed>()?;
        Some(ErrorHints { lost: true, ..ErrorHints::default() })
    })
}

/// What the error of a client of the program's own says. It does not tell the method, so a step that only reads goes by the
/// class, and one that may change the world by whether an answer was lost.
fn of_raw(error: &reqwest::Error) -> ErrorHints {
    let (class, lost) = match error.status().map(|status| status.as_u16()) {
        Some(425 | 429) => (FailureClass::Retryable, false),
        Some(408 | 500..) => (FailureClass::Retryable, true),
        Some(_) => (FailureClass::Permanent, false),
        None if error.is_builder() => (FailureClass::Permanent, false),
        None if error.is_connect() => (FailureClass::Retryable, false),
        None if error.is_timeout() => (FailureClass::Retryable, true),
        // A redirection too many, a body that broke off or does not decode: the sources may say more.
        None => (FailureClass::Unclassified, true),
    };
    ErrorHints { class, retry_after: None, lost }
}
