//! What runs that have decided to end say to the children that they take with them.
//!
//! Promise: plain values, of a few runs.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;

use crate::inbox::decisions::EndRequest;
use crate::run::program::ParentRun;
use crate::sched::{HashSet, Mutex};
use crate::store::records::RunRecord;
use crate::vocabulary::id::RunId;

/// Of so many parents it is remembered: many children of one begin together.
const REMEMBERED: usize = 8;

/// What a run that has decided to end says to the children that it takes with it.
#[derive(Debug)]
pub(crate) struct Farewell {
    pub(crate) parent: RunId,
    pub(crate) created_at: Timestamp,
    pub(crate) life: ParentRun,
    pub(crate) children: HashSet<RunId>,
    pub(crate) request: EndRequest,
    pub(crate) at_once: bool,
}

/// What the newest parents say that were asked for. It does not change: their workflows are over.
#[derive(Debug, Default)]
pub(crate) struct Farewells(Mutex<VecDeque<Arc<Farewell>>>);

impl Farewells {
    pub(crate) fn of(&self, parent: &RunRecord) -> Option<Arc<Farewell>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of = |one: &&Arc<Farewell>| one.parent == parent.id && one.created_at == parent.created_at;
        known.iter().find(is_of).cloned()
    }

    pub(crate) fn remember(&self, one: &Arc<Farewell>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back(Arc::clone(one));
        if known.len() > REMEMBERED {
            known.pop_front();
        }
    }
}
