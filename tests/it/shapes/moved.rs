//! A build whose types have other members: they accept what was recorded as the former ones.

/// What is to be done.
#[aether::accepts(OldTicket)]
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
}

/// What was to be done.
#[derive(serde::Deserialize)]
pub(crate) struct OldTicket {
    id: u32,
}

impl From<OldTicket> for Ticket {
    fn from(old: OldTicket) -> Self {
        Self { number: old.id.into() }
    }
}

/// What a call came to.
#[aether::accepts(OldReceipt)]
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Receipt {
    Paid { total: u32 },
    Free,
}

/// What a call came to.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OldReceipt {
    cents: u32,
}

impl From<OldReceipt> for Receipt {
    fn from(old: OldReceipt) -> Self {
        receipt(old.cents)
    }
}

impl Ticket {
    pub(crate) fn id(&self) -> u32 {
        self.number.try_into().unwrap()
    }
}

impl Receipt {
    pub(crate) fn cents(&self) -> u32 {
        match self {
            Self::Paid { total } => *total,
            Self::Free => 0,
        }
    }
}

pub(super) fn ticket(id: u32) -> Ticket {
    Ticket { number: id.into() }
}

pub(super) fn receipt(cents: u32) -> Receipt {
    if cents == 0 { Receipt::Free } else { Receipt::Paid { total: cents } }
}

#[path = "program.rs"]
pub(crate) mod program;
