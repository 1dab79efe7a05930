//! Whether a run is one of those that a filter asks for.
//!
//! Promise: the parts of a filter that an index may serve mean here what they mean to the index.

use crate::store::filter::RunFilter;
use crate::store::records::RunRecord;

impl RunFilter {
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
            && self.parent.as_ref().is_none_or(|parent| run.parent.as_ref() == Some(parent))
            && self.created_after.is_none_or(|time| run.created_at >= time)
            && self.created_before.is_none_or(|time| run.created_at < time)
    }
}
