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

/// The code that recorded a journal last, and whether the run is parked at its end.
#[derive(Debug, Default)]
pub(crate) struct RecordedCode {
    code: Option<RunCode>,
    parked: bool,
    /// Its steps are being undone, which needs none of its code.
    undoing: bool,
}

impl RecordedCode {
    /// Takes in the next event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::RunCreated(e) => self.code = Some(e.code()),
            Event::CodeAdopted(CodeAdopted { code }) => {
                (self.code, self.parked) = (Some(code.clone()), false);
            }
            Event::RunParked(_) => self.parked = true,
            Event::RunUnwinding(_) => (self.undoing, self.parked) = (true, false),
            Event::RunRequeued(_) if self.undoing => self.parked = false,
            event if event.is_terminal() => self.parked = false,
            _ => {}
        }
    }

    /// `None` for a journal without a beginning.
    pub(crate) fn newest(self) -> Option<(RunCode, bool)> {
        self.code.map(|code| (code, self.parked))
    }
}
