//! A transaction step whose frame is encoded when the store asks for it.

use std::time::Duration;

use crate::codec::seal::Seal;
use crate::journal::frame::Frame;
use crate::store::append::{Rollback, Work};
use crate::store::error::StoreError;
use crate::vocabulary::id::{IdempotencyKey, Position, RunId};
use crate::vocabulary::labels::Labels;

/// A unit of work behind the codec.
#[derive(Debug)]
pub(super) struct CodedWork {
    pub(super) work: Box<dyn Work>,
    pub(super) seal: Seal,
    pub(super) run: RunId,
    pub(super) labels: Option<Labels>,
    pub(super) position: Position,
}

impl Work for CodedWork {
    fn key(&self) -> &IdempotencyKey {
        self.work.key()
    }

    fn timeout(&self) -> Option<Duration> {
        self.work.timeout()
    }

    fn call(&mut self) -> bool {
        self.work.call()
    }

    fn frame(&mut self, undone: Option<Rollback>) -> Result<Frame, StoreError> {
        let mut frame = self.work.frame(undone)?;
        self.seal.seal_frame(&mut frame, &self.run, self.labels.as_ref(), self.position)?;
        Ok(frame)
    }

    fn is_called_off(&self) -> bool {
        self.work.is_called_off()
    }
}
