//! The place of a command, as a key.
//!
//! Promise: what has a place is found by it, and ordered by it.

use crate::vocabulary::id::CommandId;

/// Finds and orders what has a place by that.
macro_rules! by_place {
    ($of:ty) => {
        impl std::borrow::Borrow<str> for $of {
            fn borrow(&self) -> &str {
                self.place()
            }
        }

        impl std::hash::Hash for $of {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.place().hash(state);
            }
        }

        impl PartialEq for $of {
            fn eq(&self, other: &Self) -> bool {
                self.place() == other.place()
            }
        }

        impl Eq for $of {}

        impl PartialOrd for $of {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $of {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.place().cmp(other.place())
            }
        }
    };
}

pub(super) use by_place;

/// The place of a command, which shares the text of its id.
#[derive(Clone, Debug)]
pub(super) struct Place(pub(super) CommandId);

impl Place {
    pub(super) fn place(&self) -> &str {
        self.0.place()
    }
}

by_place!(Place);
