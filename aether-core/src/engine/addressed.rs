//! The wait that a reply names, found among those of a run.
//!
//! Promise: a name finds exactly one open wait, or the error lists what is open; a name that was decided a moment ago is
//! told so. Among several waits of one name, what was shown finds its own.

use crate::engine::decide_error::{DecideError, NamedWait};
use crate::view::pending::{Pending, WaitStates};
use crate::view::wait_ref::{Named, WaitRef};
use crate::vocabulary::id::{CommandId, RunId};
use crate::vocabulary::waiting::Waiting;

/// The command that a reply is for, and the state of its run.
pub(super) struct Addressed {
    pub(super) states: WaitStates,
    pub(super) command: CommandId,
    /// What the reply is tied to; see [`WaitRef::shown`].
    pub(super) shown: Option<String>,
}

/// The command that `wait` names, for a reply of the kind `wanted`.
pub(super) fn find(
    run: &RunId,
    states: &WaitStates,
    wait: &WaitRef,
    wanted: Waiting,
) -> Result<CommandId, DecideError> {
    let text = match &wait.named {
        Named::Command(command) => return Ok(command.clone()),
        Named::Text(text) => text,
    };
    let command = CommandId::from(text.clone());
    if states.commands.contains_key(&command) {
        return Ok(command);
    }
    let open = states.pending();
    let named: Vec<&Pending> = open.iter().filter(|wait| wait.name == *text).collect();
    let fitting: Vec<&Pending> = named.iter().copied().filter(|wait| wait.waiting == wanted).collect();
    match (fitting.as_slice(), named.as_slice()) {
        ([one], _) => return Ok(one.command.clone()),
        // The reply will be told what the wait is for instead.
        ([], [one]) => return Ok(one.command.clone()),
        ([], _) => {}
        (several @ [first, ..], _) if let Some(shown) = &wait.shown => {
            let command = first.command.clone();
            let seen = several.iter().find(|open| open.shown() == *shown).map(|open| open.command.clone());
            return seen.ok_or_else(|| DecideError::Changed { run: run.clone(), command });
        }
        (several, _) => {
            let open = several.iter().map(|wait| NamedWait::from(*wait)).collect();
            return Err(DecideError::AmbiguousWait { run: run.clone(), name: text.clone(), open });
        }
    }
    // Whoever was second is told who was first.
    let mut decided = states.commands.iter().filter(|(_, state)| {
        state.newest.as_ref().is_some_and(|(waiting, name)| *waiting == wanted && name == text)
    });
    match decided.next_back() {
        Some((command, _)) => Ok(command.clone()),
        None => {
            let open = open.iter().map(NamedWait::from).collect();
            Err(DecideError::UnknownWait { run: run.clone(), name: text.clone(), wanted, open })
        }
    }
}
