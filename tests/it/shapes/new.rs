//! The build after it: each type has a member more.

/// What is to be done.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ticket {
    pub(crate) id: u32,
    #[serde(default)]
    pub(crate) vip: Option<bool>,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Receipt {
    #[serde(default)]
    pub(crate) currency: String,
    pub(crate) cents: u32,
}

impl Ticket {
    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

impl Receipt {
    pub(crate) fn cents(&self) -> u32 {
        self.cents
    }
}

pub(super) fn ticket(id: u32) -> Ticket {
    Ticket { id, vip: None }
}

pub(super) fn receipt(cents: u32) -> Receipt {
    Receipt { cents, currency: String::new() }
}

#[path = "program.rs"]
pub(crate) mod program;
