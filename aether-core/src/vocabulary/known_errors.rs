//! What errors of other crates say of themselves: whether and when to try again.
//!
//! Promise: an error type that is registered keeps its class through `?`, also inside of a report.

use std::any::Any;
use std::error::Error as StdError;
use std::time::Duration;

use crate::vocabulary::outcome::{Classify, FailureClass};

/// What the engine needs to know of an error: whether and when to try again, and whether what was asked for may have been
/// done all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorHints {
    /// Class of the error.
    pub class: FailureClass,
    /// Minimum wait before the next attempt; `None` leaves it to the retry policy.
    pub retry_after: Option<Duration>,
    /// Whether an answer was lost; see [`Classify::is_lost`].
    pub lost: bool,
}

impl ErrorHints {
    /// The hints that an error gives by itself.
    pub fn of(error: &impl Classify) -> Self {
        Self { class: error.class(), retry_after: error.retry_after(), lost: error.is_lost() }
    }
}

/// Gives the hints for an error type of another crate, so that `?` keeps them. Register one with `inventory::submit!`.
///
/// ```standalone_crate
/// use aether_core::failure::{ErrorHints, Failure, KnownError};
/// use aether_core::outcome::FailureClass;
/// # mod inventory { pub use ::inventory::submit; }
/// inventory::submit! {
///     KnownError(|error| {
///         error.downcast_ref::<std::num::ParseIntError>()?;
///         Some(ErrorHints { class: FailureClass::Permanent, ..ErrorHints::default() })
///     })
/// }
///
/// # fn main() {
/// let failure = Failure::from("x".parse::<u8>().unwrap_err());
/// assert_eq!(failure.class(), FailureClass::Permanent);
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KnownError(pub fn(&(dyn StdError + 'static)) -> Option<ErrorHints>);

inventory::collect!(KnownError);

/// Finds the error in a report: a type that holds any error and is none itself. `?` works on every report; one that is
/// registered keeps the class of the error that it was made of directly, too. `anyhow::Error` is known without this.
///
/// ```standalone_crate
/// use aether_core::failure::{Failure, KnownReport};
/// use aether_core::outcome::FailureClass;
/// # mod inventory { pub use ::inventory::submit; }
/// # mod eyre {
/// #     use std::error::Error;
/// #     pub struct Report(pub Box<dyn Error + Send + Sync>);
/// #     impl std::ops::Deref for Report {
/// #         type Target = dyn Error + Send + Sync;
/// #         fn deref(&self) -> &Self::Target { &*self.0 }
/// #     }
/// #     impl From<Report> for Box<dyn Error + Send + Sync> {
/// #         fn from(report: Report) -> Self { report.0.to_string().into() }
/// #     }
/// # }
/// inventory::submit! {
///     KnownReport(|any| any.downcast_ref::<eyre::Report>().map(|report| &**report as _))
/// }
///
/// # fn main() {
/// # let lost = eyre::Report(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
/// assert_eq!(Failure::from(lost).class(), FailureClass::Retryable);
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KnownReport(pub fn(&dyn Any) -> Option<&(dyn StdError + 'static)>);

inventory::collect!(KnownReport);

/// The error in a report, if `any` is one.
pub(super) fn in_report(any: &dyn Any) -> Option<&(dyn StdError + 'static)> {
    if let Some(report) = any.downcast_ref::<anyhow::Error>() {
        return Some(&**report);
    }
    inventory::iter::<KnownReport>.into_iter().find_map(|known| known.0(any))
}

/// The hints for one error of another crate, if its type gives any.
pub(super) fn known_elsewhere(error: &(dyn StdError + 'static)) -> Option<ErrorHints> {
    inventory::iter::<KnownError>
        .into_iter()
        .find_map(|known| known.0(error))
        .or_else(|| of_connection(error))
}

/// What the error of a connection says. A connection that was refused carried nothing; one that ended in any other way may
/// have carried a request, whose answer was lost. A network that cannot be reached is no exception: systems report that of
/// open connections, too.
fn of_connection(error: &(dyn StdError + 'static)) -> Option<ErrorHints> {
    use std::io::ErrorKind as Kind;
    let (class, lost) = match error.downcast_ref::<std::io::Error>()?.kind() {
        Kind::ConnectionRefused => (FailureClass::Retryable, false),
        Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::NotConnected
        | Kind::BrokenPipe
        | Kind::TimedOut
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown => (FailureClass::Retryable, true),
        // Also of a file that is cut short, which does not pass by itself.
        Kind::UnexpectedEof | Kind::WriteZero => (FailureClass::Unclassified, true),
        _ => return None,
    };
    Some(ErrorHints { class, retry_after: None, lost })
}
