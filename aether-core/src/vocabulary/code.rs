//! Which code recorded a run, and which code a parked run waits for.
//!
//! Promise: plain data; the names are those of the journal.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::vocabulary::id::{CodeId, CommandId};

/// The code of a workflow, as a journal names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCode {
    /// Name of the workflow.
    pub workflow: String,
    /// Module of the workflow's function.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Version of its definition.
    pub version: u32,
    /// Fingerprint of its source, with that of the workflows that it runs inline.
    pub fingerprint: String,
}

impl RunCode {
    /// Its id, by which stores and workers know it.
    pub fn id(&self) -> CodeId {
        CodeId::of(&self.module, &self.workflow, self.version, &self.fingerprint)
    }
}

impl fmt::Display for RunCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workflow `{}`", self.workflow)?;
        if !self.module.is_empty() {
            write!(f, " of module `{}`", self.module)?;
        }
        write!(f, ", version {}", self.version)?;
        match self.fingerprint.get(..8) {
            Some(short) => write!(f, " ({short})"),
            None => Ok(()),
        }
    }
}

/// One side of the place at which code and history of a parked run differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedAt {
    /// The command.
    pub command: CommandId,
    /// Where it is in the source, as `file:line`, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

impl fmt::Display for ParkedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.command)?;
        match &self.site {
            Some(site) => write!(f, " at {site}"),
            None => Ok(()),
        }
    }
}
