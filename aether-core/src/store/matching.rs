//! Whether a run is one of those that a filter asks for.
//!
//! Promise: the parts of a filter that an index may serve mean here what they mean to the index.

use crate::store::filter::RunFilter;
use crate::store::records::RunRecord;

impl RunFilter {
    fn is_of_queue(&self, run: &RunRecord) -> bool {
        let place = run.terms.queue.as_ref();
        let is_below = |key: &str, prefix: &str| {
            let rest = key.strip_prefix(prefix);
            rest.is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        self.queue.as_ref().is_none_or(|queue| place.is_some_and(|place| place.queue == *queue))
            && self.queue_key.as_ref().is_none_or(|key| place.is_some_and(|place| is_below(&place.key, key)))
    }

    /// For stores: whether a run is one of those that are asked for, apart from [`after`](Self::after) and
    /// [`limit`](Self::limit).
    pub fn admits(&self, run: &RunRecord) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&run.status))
            && self.workflow.as_ref().is_none_or(|workflow| run.workflow == *workflow)
            && self.version.is_none_or(|version| run.version == version)
            && self.code.as_ref().is_none_or(|code| run.code == *code)
            && self.parked.is_none_or(|parked| run.parked == parked)
            && self.labels.iter().all(|(key, value)| run.labels.get(key) == Some(value))
            && self.id_prefix.as_ref().is_none_or(|prefix| run.id.as_str().starts_with(&**prefix))
            && self.id_contains.as_ref().is_none_or(|text| run.id.as_str().contains(&**text))
            && self.is_of_queue(run)
            && self.parent.as_ref().is_none_or(|parent| run.parent.as_ref() == Some(parent))
            && self.created_after.is_none_or(|time| run.created_at >= time)
            && self.created_before.is_none_or(|time| run.created_at < time)
    }
}
