//! Which code recorded a journal.
//!
//! Promise: a fold; the newest adoption counts.

use crate::journal::event::{CodeAdopted, Event, RunCreated};
use crate::vocabulary::code::RunCode;

impl RunCreated {
    /// The code that created the run.
    pub fn code(&self) -> RunCode {
        RunCode {
            workflow: self.workflow.clone(),
            module: self.module.clone(),
            version: self.version,
            fingerprint: self.fingerprint.clone(),
        }
    }
}

/// The code that recorded `events` last, and whether the run is parked at their end. `None` for events without a beginning.
pub(crate) fn recorded_code(events: &[Event]) -> Option<(RunCode, bool)> {
    let (mut code, mut parked) = (None, false);
    for event in events {
        match event {
            Event::RunCreated(e) => code = Some(e.code()),
            Event::CodeAdopted(CodeAdopted { code: adopted }) => {
                (code, parked) = (Some(adopted.clone()), false)
            }
            Event::RunParked(_) => parked = true,
            event if event.is_terminal() => parked = false,
            _ => {}
        }
    }
    code.map(|code| (code, parked))
}
