//! Where the runs of the chaos are kept, and the faults that hit all workers there at once.
//!
//! Promise: what the judge asks is answered by the store that survived, not by what the driver believes of it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use aether::store::Store;

use super::faults::Fault;

/// Run and id of a message, with its topic, and where it was consumed.
pub(super) type Messages = BTreeMap<(String, String), (String, Option<i64>)>;

/// A store, as the driver and the judge see it. Its text says what can be full, or down.
pub(super) trait Home: Display {
    /// What a worker opens.
    fn address(&self) -> String;

    /// How many pages the workers' files may have; `None` for no limit.
    fn max_pages(&self) -> Option<u32> {
        None
    }

    /// Each kind of fault, as often as it comes for one of the rarest.
    fn cards(&self) -> &'static [(Fault, usize)];

    /// How many runs have not ended; `None` where nobody can tell now.
    fn open_runs(&mut self) -> Option<u32>;

    /// Begins a fault that hits all workers. Returns `false` where it cannot happen now.
    fn begin(&mut self, fault: Fault) -> bool;

    /// Ends it. Returns `false` where it cannot end now.
    fn end(&mut self, fault: Fault) -> bool;

    /// The store, for the verdict.
    fn store(&self) -> Arc<dyn Store>;

    /// All messages that were ever sent.
    fn messages(&self) -> Messages;

    /// What is wrong with the medium itself, or with its tables.
    fn damage(&self) -> Option<String> {
        None
    }

    /// Whether the store can tell that a former owner's process is there although it is paused.
    fn sees_paused(&self) -> bool {
        true
    }

    /// Keeps a copy in `folder` for who looks for the cause of a violation.
    fn keep(&self, folder: &Path);
}
