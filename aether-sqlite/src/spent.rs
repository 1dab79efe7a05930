//! Written appends on their way back to the threads that make them, which free them.
//!
//! Promise: what is kept is little. An allocator keeps freed memory for the thread that frees it, and takes a lock of the
//! thread that allocated it when that is too much: the writer only frees, so it would wait for those locks, and the
//! others for the writer, several times in each append.

use aether_core::store::ledger::{Acquire, LedgerUpdate};
use aether_core::store::{Ack, Append, WaitChange};
use crossbeam_channel::{Receiver, Sender, bounded};

/// So many are kept; what is more, the writer frees.
const KEPT: usize = 512;
/// Longer texts are few, and are freed at once.
const SHORT: usize = 4_096;

/// What most appends are made of.
pub(crate) struct Spent {
    _text: String,
    _acquire: Option<Acquire>,
    _ledger: Vec<LedgerUpdate>,
    _waits: Vec<WaitChange>,
}

/// Where the writer gives them to.
#[derive(Debug)]
pub(crate) struct GiveBack(Sender<Spent>);

/// Where those who append take them from.
#[derive(Debug)]
pub(crate) struct TakeBack(Receiver<Spent>);

/// Both ends.
pub(crate) fn ways_back() -> (GiveBack, TakeBack) {
    let (give, take) = bounded(KEPT);
    (GiveBack(give), TakeBack(take))
}

impl GiveBack {
    /// The answer of a written append; the rest of it is given back.
    pub(crate) fn all_but_ack(&self, append: Append) -> Ack {
        let Append { frame, acquire, ledger, waits, ack, .. } = append;
        if frame.text.len() <= SHORT {
            let spent = Spent { _text: frame.text, _acquire: acquire, _ledger: ledger, _waits: waits };
            let _freed_here = self.0.try_send(spent);
        }
        ack
    }
}

impl TakeBack {
    /// Frees one, in a thread that is about to make one.
    pub(crate) fn free_one(&self) {
        drop(self.0.try_recv());
    }
}
