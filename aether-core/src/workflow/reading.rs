//! Reading what was recorded: answers, signals, plans.
//!
//! Promise: a value that its own code could not read is marked in the append that holds it, and is the same step error on
//! every replay. Any other value was readable, and stops the run where it is not any more.

use crate::journal::event::{Event, ResultUnreadable};
use crate::perform::call::ask_in_net;
use crate::run::claim::Run;
use crate::step::recordable::{Recordable, RecordableError};
use crate::vocabulary::failure::StepError;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::payload::{Answered, PayloadError};
use crate::workflow::gate::as_workflow_code;

/// Where a command stood in the source that recorded it, and where it is now.
pub(crate) type Sites = (Option<String>, Option<String>);

/// Reads an answer from the recorded bytes, on the first run as on every replay.
pub(crate) fn read_answer<O, E>(answered: &Answered) -> Result<Result<O, StepError<E>>, PayloadError>
where
    O: Recordable,
    E: RecordableError,
{
    match answered {
        Ok(value) => value.decode().map(Ok),
        Err(error) => error.decode().map(Err),
    }
}

/// Whether an answer can be read.
pub(crate) fn readable<O, E>(answered: &Answered) -> Result<(), PayloadError>
where
    O: Recordable,
    E: RecordableError,
{
    read_answer::<O, E>(answered).map(drop)
}

/// Reads a recorded value that was readable when it was recorded, as workflow code: every replay reads it again. Where it is
/// not readable any more, the code has changed: the run stops, and its workflow does not see an error.
pub(crate) async fn read_recorded<T>(
    run: &Run,
    command: &CommandId,
    what: &'static str,
    sites: impl FnOnce() -> Sites,
    read: impl FnOnce() -> Result<T, PayloadError>,
) -> T {
    match ask_in_net(command.as_str(), || as_workflow_code(read)) {
        Ok(value) => value,
        Err(error) => run.unreadable(command, what, sites(), error).await,
    }
}

/// Reads a new value, which is recorded next. Where that fails: why, and the event that says so.
pub(crate) fn unreadable(
    command: &CommandId,
    read: impl FnOnce() -> Result<(), PayloadError>,
) -> Option<(String, Event)> {
    let reason = ask_in_net(command.as_str(), read).err()?.to_string();
    let event = ResultUnreadable { command: command.clone(), reason: reason.clone() }.into();
    Some((reason, event))
}
