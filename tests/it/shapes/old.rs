//! The build that recorded: its types.

/// What is to be done.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ticket {
    pub(crate) id: u32,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Receipt {
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
    Ticket { id }
}

pub(super) fn receipt(cents: u32) -> Receipt {
    Receipt { cents }
}

#[path = "program.rs"]
pub(crate) mod program;
