//! What a run owes on its way from one generation to the next.
//!
//! Promise: plain values; journals of former builds are read, and what these do not hold is none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::journal::event::uncompensated::Uncompensated;
use crate::journal::event::{CompensationRecorded, Event};
use crate::vocabulary::id::{CommandId, RunId};

/// Obligations on their way from one generation of a run to the next.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Carried {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) steps: Vec<CarriedStep>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) children: BTreeMap<RunId, CommandId>,
}

impl Carried {
    /// Whether the next generation begins without obligations.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.children.is_empty()
    }
}

/// A step that is not undone.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CarriedStep {
    pub(super) recorded: CompensationRecorded,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claimed: Option<CommandId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<Uncompensated>,
    /// What is recorded of the call that undoes it, where that was begun and has no outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) begun: Vec<Event>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::event::{NodeFinished, NodeStarted};
    use crate::vocabulary::contract::Constraints;
    use crate::vocabulary::outcome::EffectClass;
    use crate::vocabulary::payload::{Digest, Payload};

    const FORMER: &str = r#"{"steps":[{"recorded":{"command":"0:pay","step":"app::refund","args":{"cents":7}},"claimed":"1.b0.0:compensate"}]}"#;

    #[test]
    fn what_a_former_build_carried_has_nothing_begun() {
        let carried: Carried = Payload::from_text(FORMER.into()).unwrap().decode().unwrap();
        assert_eq!(carried.steps[0].begun, []);
        assert_eq!(Payload::encode(&carried).unwrap().as_str(), FORMER);
    }

    #[test]
    fn what_is_begun_comes_back_as_it_was() {
        let mut carried: Carried = Payload::from_text(FORMER.into()).unwrap().decode().unwrap();
        let (command, input) = (CommandId::new("1.b0.0.undo.0", "refund"), Payload::encode(&[1, 2]).unwrap());
        let started = NodeStarted {
            command: command.clone(),
            class: EffectClass::Tool,
            digest: Digest::of(&input).unwrap(),
            input: Some(input),
            path: None,
            site: None,
            constraints: Constraints::default(),
        };
        carried.steps[0].begun = vec![started.into(), NodeFinished { command }.into()];
        assert_eq!(Payload::encode(&carried).unwrap().decode::<Carried>().unwrap(), carried);
    }
}
