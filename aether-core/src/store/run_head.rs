//! What a run's row repeats of the first event of its journal.
//!
//! Promise: the two are compared in one place, whether the row is in a store or in a file.

use std::fmt::Debug;

use crate::journal::event::RunCreated;
use crate::vocabulary::id::RunId;
use crate::vocabulary::labels::Labels;

/// What is said of a run beside its journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunHead<'r> {
    pub(crate) workflow: &'r str,
    pub(crate) version: u32,
    pub(crate) labels: &'r Labels,
    pub(crate) parent: Option<&'r RunId>,
}

impl RunHead<'_> {
    /// In what it differs from the event with which the journal begins.
    pub(crate) fn differences(&self, created: &RunCreated) -> Vec<String> {
        let Self { workflow, version, labels, parent } = *self;
        let differs = |what: &str, says: &dyn Debug, journal: &dyn Debug| {
            let (says, journal) = (format!("{says:?}"), format!("{journal:?}"));
            (says != journal).then(|| format!("its {what} is {says}, and in its journal {journal}"))
        };
        let found = [
            differs("workflow", &workflow, &created.workflow),
            differs("version", &version, &created.version),
            differs("set of labels", &labels, &created.labels),
            differs("parent", &parent, &created.parent.as_ref()),
        ];
        found.into_iter().flatten().collect()
    }
}
