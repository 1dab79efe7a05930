//! What a store says of a run's creation before that is durable.
//!
//! Promise: of a run that was begun on such word, nothing is written where its creation was not.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "told and looked at in the middle of a store's transaction, which no explored schedule may leave"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot::{Receiver, Sender, channel};

/// Whether a creation that a store told early came to nothing. The appends of a run that was begun meanwhile carry it; see
/// [`Append::unborn`](crate::store::Append::unborn).
#[derive(Clone, Debug, Default)]
pub struct Birth(Arc<AtomicBool>);

impl Birth {
    /// Whether the creation came to nothing.
    pub fn is_void(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// How a store tells early that a run is new; see [`Store::create_early`](crate::store::Store::create_early). A store that
/// never tells drops it.
///
/// ```
/// use aether_core::store::BirthNotice;
/// let (mut notice, mut news) = BirthNotice::new();
/// let birth = notice.birth();
/// notice.tell();
/// assert_eq!(news.try_recv(), Ok(()));
/// // Not kept: the write failed.
/// drop(notice);
/// assert!(birth.is_void());
/// ```
#[derive(Debug)]
pub struct BirthNotice {
    news: Option<Sender<()>>,
    birth: Birth,
    kept: bool,
}

impl BirthNotice {
    /// A notice, and where its word arrives.
    pub fn new() -> (Self, Receiver<()>) {
        let (news, told) = channel();
        (Self { news: Some(news), birth: Birth::default(), kept: false }, told)
    }

    /// What the appends of the run carry.
    pub fn birth(&self) -> Birth {
        self.birth.clone()
    }

    /// Says that the run is new. From here on the store must say what became of the write: [`BirthNotice::keep`] where it is
    /// durable; otherwise it drops the notice, before it looks at another append.
    pub fn tell(&mut self) {
        if let Some(news) = self.news.take() {
            let _nobody_waits = news.send(());
        }
    }

    /// The creation is durable.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for BirthNotice {
    fn drop(&mut self) {
        if !self.kept {
            self.birth.0.store(true, Ordering::Release);
        }
    }
}
