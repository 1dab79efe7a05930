//! What is planned for all bodies, probes, servers and models of a simulation.
//!
//! Promise: a script is data; every simulation begins at its start.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aether_core::step::Step;

use super::answers::{Answers, ProbeStub, Script};
use super::children::ChildStubs;
use super::http::HttpScript;
use super::model::ModelScripts;
use super::recorded::RecordedAnswers;

/// What is planned for all bodies.
#[derive(Clone, Default)]
pub(crate) struct Scripts {
    by_path: BTreeMap<String, Script>,
    pub(crate) probes: BTreeMap<String, ProbeStub>,
    pub(crate) http: Vec<HttpScript>,
    pub(crate) models: ModelScripts,
    pub(crate) children: ChildStubs,
    /// Versions of marks, by name.
    pub(crate) marks: BTreeMap<String, u32>,
    pub(crate) recorded: Option<Arc<RecordedAnswers>>,
}

impl Scripts {
    /// What answers the calls of `S` that no matcher fits.
    pub(crate) fn of<S: Step>(&mut self) -> &mut Answers {
        self.named(S::DEF.path)
    }

    /// The same for an effect, or for a step by its unique name.
    pub(crate) fn named(&mut self, path: &str) -> &mut Answers {
        &mut self.script(path).rest
    }

    pub(crate) fn script(&mut self, path: &str) -> &mut Script {
        self.by_path.entry(path.into()).or_default()
    }

    /// Replaces the probe of `S`.
    pub(crate) fn probe<S: Step>(&mut self, stub: ProbeStub) {
        self.probes.insert(S::DEF.path.into(), stub);
    }

    /// The probe of a step looks for real where the real body ran, unless the test stubs it.
    pub(crate) fn look_for_real<S: Step>(&mut self) {
        self.probes.entry(S::DEF.path.into()).or_insert(ProbeStub::OfRealBodies);
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Script> {
        self.by_path.get(path)
    }

    /// What has a script.
    pub(crate) fn names(&self) -> Vec<String> {
        let http = self.http.iter().map(HttpScript::name);
        self.by_path
            .keys()
            .cloned()
            .chain(http)
            .chain(self.models.names())
            .chain(self.children.names())
            .collect()
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
