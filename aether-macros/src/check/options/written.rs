//! The options of an attribute as they are written, before they are held against each other.

use syn::{Ident, Item, Path, Type, parse_quote};

use crate::plan::{Allow, Approval, ArgumentClosure, Confirm, Effect, KeyScope, OnUnknown, Retry, Timeout};

/// Options that both attributes have.
pub(crate) struct Common {
    pub(crate) krate: Path,
    pub(crate) name: Option<String>,
    pub(crate) allows: Vec<Allow>,
    /// Macros that the user vouches for.
    pub(crate) macros: Vec<String>,
    /// The items of the module, where `#[workflow_mod]` shows them.
    pub(crate) module: Vec<Item>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            krate: parse_quote!(::aether),
            name: None,
            allows: Vec::new(),
            macros: Vec::new(),
            module: Vec::new(),
        }
    }
}

/// The options as written, each with the place it stands at.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) effect: Option<Option<Effect>>,
    pub(crate) retry: Option<(Ident, Retry)>,
    pub(crate) timeout: Option<Timeout>,
    pub(crate) irreversible: Option<Ident>,
    pub(crate) idempotent: Option<Ident>,
    pub(crate) key: Option<(Ident, Option<ArgumentClosure>)>,
    pub(crate) on_unknown: Option<(Ident, Option<OnUnknown>)>,
    pub(crate) probe: Option<(Ident, Option<Path>)>,
    pub(crate) approval: Option<(Ident, Option<Approval>)>,
    pub(crate) compensate: Option<(Ident, Option<Path>)>,
    pub(crate) scope: Option<(Ident, Option<KeyScope>)>,
    pub(crate) changes: Option<(Ident, Vec<String>)>,
    pub(crate) confirm: Option<(Ident, Option<Confirm>)>,
    pub(crate) heartbeat: Option<(Ident, Option<u64>)>,
    pub(crate) limit: Option<(Ident, Option<String>)>,
    pub(crate) needs: Option<(Ident, Vec<Type>)>,
    pub(crate) version: Option<u32>,
    pub(crate) of: Option<(Ident, Option<Of>)>,
}

/// The workflow of which another one is a version, or what a step was called before.
pub(crate) struct Of {
    pub(crate) name: String,
    /// Its module, where it is said.
    pub(crate) module: Option<String>,
}
