//! Who decided what, as the frames of one run's evidence say it.
//!
//! Promise: what is said comes from the text that the hash chain covers; what comes from the plain text of an encoded event
//! is marked as claimed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::event::Event;
use crate::journal::frame::{CHAIN_START, JournalError, StoredFrame};
use crate::journal::large_values::BlobRef;
use crate::store::recorded_calls::{RecordedCalls, raw_events};
use crate::vocabulary::id::{Position, RunId};
use crate::vocabulary::payload::Payload;

/// What somebody decided: any event that names an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceDecision {
    /// Position of the event.
    pub position: Position,
    /// When it was recorded.
    pub at: Timestamp,
    /// Kind of the event, such as `approval_decided`.
    pub kind: String,
    /// Who.
    pub actor: String,
    /// The command that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Digest of the arguments that this command is called with from here on, if they were recorded: of those that the
    /// decision replaces them with, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Who and what stand in the plain text of an encoded frame: whoever made the file claims it. Only a check says so.
    #[serde(default, skip_deserializing, skip_serializing_if = "is_false")]
    pub claimed: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A frame as it can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadFrame<'t> {
    pub(super) position: Position,
    pub(super) at: Timestamp,
    pub(super) text: &'t str,
    /// The text is what somebody claims that the frame's encoded text says.
    pub(super) is_claimed: bool,
}

impl ReadFrame<'_> {
    pub(super) fn events(&self) -> Result<Vec<Event>, JournalError> {
        let Self { position, at, text, .. } = *self;
        // What it may be encoded to is none of this frame's reader's business.
        let decoded = Some(text.to_owned());
        let frame = StoredFrame { position, at, epoch: 0, text: String::new(), chain: CHAIN_START, decoded };
        frame.events()
    }
}

/// What the frames of `run` say of its calls, and the decisions in them. `value` finds a value that stands apart.
pub(super) fn read_frames(
    run: &RunId,
    frames: &[ReadFrame<'_>],
    value: impl Fn(&BlobRef) -> Option<Payload>,
) -> Result<(RecordedCalls, Vec<EvidenceDecision>), String> {
    let (mut calls, mut found) = (RecordedCalls::of(run.clone()), Vec::new());
    for frame in frames {
        let events =
            raw_events(frame.text).map_err(|reason| format!("frame {}: {reason}", frame.position))?;
        for (number, event) in (0..).zip(events) {
            calls.apply(&event, &value);
            let Some(actor) = event.read("actor") else { continue };
            let command: Option<String> = event.read("command");
            let digest = command.as_ref().and_then(|command| calls.digest(command)).map(ToString::to_string);
            let (position, at) = (frame.position.saturating_add(number), frame.at);
            let claimed = frame.is_claimed;
            found.push(EvidenceDecision { position, at, kind: event.kind, actor, command, digest, claimed });
        }
        calls.end_frame();
    }
    Ok((calls, found))
}
