//! A ticket and the states that it goes through.

use std::fmt;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    #[default]
    Free,
    Team,
    Enterprise,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
    Urgent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Team {
    Billing,
    Technical,
    Security,
    General,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    New,
    Open { team: Team },
    WaitingForCustomer { team: Team },
    Solved { by: String },
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Assigned { team: Team },
    Asked,
    Replied { text: String },
    Solved { by: String },
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ticket that is {from} cannot take {event:?}")]
pub struct Transition {
    from: String,
    event: Event,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ticket {
    pub number: u64,
    pub from: String,
    pub subject: String,
    pub text: String,
    pub plan: Plan,
    pub opened: DateTime<Utc>,
    pub status: Status,
    #[serde(default)]
    pub priority: Priority,
    /// In the order in which they were set.
    #[serde(default)]
    pub fields: IndexMap<String, String>,
}

impl Status {
    pub const fn team(&self) -> Option<Team> {
        match self {
            Self::Open { team } | Self::WaitingForCustomer { team } => Some(*team),
            Self::New | Self::Solved { .. } | Self::Closed => None,
        }
    }

    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("new"),
            Self::Open { team } => write!(f, "open with {team:?}"),
            Self::WaitingForCustomer { .. } => f.write_str("waiting"),
            Self::Solved { by } => write!(f, "solved by {by}"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

impl Ticket {
    pub fn apply(&mut self, event: Event) -> Result<(), Transition> {
        let next = match (&self.status, &event) {
            (Status::New | Status::Open { .. }, Event::Assigned { team }) => Status::Open { team: *team },
            (Status::Open { team }, Event::Asked) => Status::WaitingForCustomer { team: *team },
            (Status::Open { team } | Status::WaitingForCustomer { team }, Event::Replied { text }) => {
                let count = self.fields.keys().filter(|key| key.starts_with("reply ")).count();
                self.fields.insert(format!("reply {}", count + 1), text.clone());
                Status::Open { team: *team }
            }
            (Status::Solved { .. }, Event::Replied { .. }) => Status::Open { team: Team::General },
            (Status::Open { .. } | Status::WaitingForCustomer { .. }, Event::Solved { by }) => {
                Status::Solved { by: by.clone() }
            }
            (Status::Solved { .. } | Status::WaitingForCustomer { .. }, Event::Closed) => Status::Closed,
            (from, _) => return Err(Transition { from: from.to_string(), event }),
        };
        tracing::debug!(ticket = self.number, from = %self.status, to = %next, "moved");
        self.status = next;
        Ok(())
    }
}
