//! Values as they are compared: the order of an object's keys does not count.
//!
//! Promise: equal values have equal texts, also those of a map that has another order in each process.

use std::fmt;

use aether_core::id::CommandId;
use aether_core::payload::Payload;
use serde_json::Value;

use crate::sim::report::journal::sort_request;

/// A value with the keys of its objects in order.
pub(super) struct Canonical(String);

pub(super) fn canonical(payload: &Payload) -> Canonical {
    let Ok(mut value) = serde_json::from_str::<Value>(payload.as_str()) else {
        return Canonical(payload.as_str().to_owned());
    };
    value.sort_all_objects();
    Canonical(value.to_string())
}

/// The arguments of a command.
pub(super) fn canonical_args(command: &CommandId, args: &Payload) -> Canonical {
    let Ok(mut value) = args.decode::<Value>() else { return canonical(args) };
    sort_request(command, &mut value);
    value.sort_all_objects();
    Canonical(value.to_string())
}

pub(super) fn canonical_result(
    result: Option<&Result<Payload, Payload>>,
) -> Option<Result<Canonical, Canonical>> {
    result.map(|result| result.as_ref().map(canonical).map_err(canonical))
}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
