//! What the list of events is made into: one type per kind, the enum of all, and what can be asked of every kind.
//!
//! Promise: a field is named once. That an event is about a command, and which of its values may be large, follows from
//! its fields, so that a new kind cannot be forgotten anywhere.

use crate::vocabulary::payload::Payload;

/// `command_of!(event; fields ..)`: the command an event is about, which is its field `command` if it has one.
macro_rules! command_of {
    ($event:ident;) => { None };
    ($event:ident; command $($rest:ident)*) => { Some(&$event.command) };
    ($event:ident; $other:ident $($rest:ident)*) => { command_of!($event; $($rest)*) };
}

/// The one mark a field may have: `@large`, for a value that goes to the effect store where it is large.
macro_rules! marked {
    (large, $do:expr) => {
        $do
    };
}

macro_rules! events {
    ($(
        $(#[$doc:meta])* $number:literal $kind:ident {
            $($(#[$fdoc:meta])* $(@$mark:ident)? $field:ident: $ty:ty),* $(,)?
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            pub struct $kind { $($(#[$fdoc])* pub $field: $ty),* }

            impl From<$kind> for Event {
                fn from(event: $kind) -> Self { Self::$kind(event) }
            }
        )*

        /// One fact in a run's journal.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Event {
            $($(#[$doc])* $kind($kind),)*
            /// A kind this build does not know; it is kept in its place and otherwise skipped.
            #[serde(skip)]
            Unknown {
                /// Name of the kind as it stands in the journal.
                kind: String,
            },
        }

        impl Event {
            /// Every kind with its reserved number, in the order of the numbers.
            pub const KINDS: &'static [(u16, &'static str)] = &[$(($number, stringify!($kind))),*];

            /// The reserved number of this kind; 0 for a kind this build does not know.
            pub const fn number(&self) -> u16 {
                match self {
                    $(Self::$kind(_) => $number,)*
                    Self::Unknown { .. } => 0,
                }
            }

            /// The command the event is about, where it is about one.
            pub fn command(&self) -> Option<&CommandId> {
                match self {
                    $(Self::$kind(_event) => command_of!(_event; $($field)*),)*
                    Self::Unknown { .. } => None,
                }
            }

            /// Visits the fields that may hold a large value, with their names.
            pub(crate) fn for_each_large<'e>(&'e self, visit: &mut dyn FnMut(&'static str, &'e Payload)) {
                match self {
                    $(Self::$kind(_event) => {
                        $($(marked!($mark, if let Some(value) = _event.$field.get() {
                            visit(stringify!($field), value);
                        });)?)*
                    })*
                    Self::Unknown { .. } => {}
                }
            }

            /// Puts `value` into the field of this name that may hold a large value; says whether there is one.
            pub(crate) fn put_large(&mut self, _name: &str, _value: Payload) -> bool {
                match self {
                    $(Self::$kind(_event) => {
                        $($(marked!($mark, if _name == stringify!($field) {
                            _event.$field.put(_value);
                            return true;
                        });)?)*
                        false
                    })*
                    Self::Unknown { .. } => false,
                }
            }
        }
    };
}

/// A field that may hold a large value.
pub(crate) trait LargeField {
    /// The value, if there is one.
    fn get(&self) -> Option<&Payload>;
    /// Replaces the value.
    fn put(&mut self, value: Payload);
}

impl LargeField for Payload {
    fn get(&self) -> Option<&Payload> {
        Some(self)
    }

    fn put(&mut self, value: Payload) {
        *self = value;
    }
}

impl LargeField for Option<Payload> {
    fn get(&self) -> Option<&Payload> {
        self.as_ref()
    }

    fn put(&mut self, value: Payload) {
        *self = Some(value);
    }
}

pub(crate) use {command_of, events, marked};
