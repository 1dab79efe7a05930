//! Chains of the bare writer: the frames that the engine writes, and which of them are waited for.

use std::sync::Arc;

use aether::store::journal::StoredFrame;

use crate::kit::writer::Row;
use crate::recorded::starts;

/// What a bare writer waits for. The last row of a run is always waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Every row.
    Commit,
    /// The rows with which bodies of tools begin.
    Tool,
    /// Nothing else.
    Read,
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "commit" => Ok(Self::Commit),
            "tool" => Ok(Self::Tool),
            "read" => Ok(Self::Read),
            other => Err(format!("unknown mode {other}: commit, tool or read")),
        }
    }
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tool => "tool",
            Self::Read => "read",
        }
    }
}

/// The rows of one chain.
pub(crate) fn rows(frames: &[StoredFrame], mode: Mode) -> Arc<[Row]> {
    let row = |(number, frame): (usize, &StoredFrame)| {
        let ends = number + 1 == frames.len();
        let awaited = ends || mode == Mode::Commit || mode == Mode::Tool && starts(frame);
        Row { text: frame.text.as_str().into(), awaited }
    };
    frames.iter().enumerate().map(row).collect()
}
