//! Notices.
use std::sync::Arc;

use crate::store::Shared;

pub(crate) struct Notices;

impl Notices {
    pub(crate) fn start(_shared: &Arc<Shared>) {}
}
