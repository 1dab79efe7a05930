//! Batches at the server: while one is written, what is queued is gathered, and sent behind it.
//!
//! Promise: two batches that are at the server together have no run in common, and neither keeps a transaction open between
//! its statements. What is left to do about the first is done when the second is decided, too.
//!
//! The server works off one batch after the other. Where the next one is there already, it has nothing to wait for while an
//! answer is read, the runs are told, and what they queue is put together.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use aether_core::id::RunId;
use futures_util::future::{BoxFuture, Either, FutureExt as _, select};
use futures_util::poll;
use tokio::sync::Notify;

use crate::error::{Failure, OpError, failure};
use crate::writer::batch::Batch;
use crate::writer::statements::{Passed, needs_steps};
use crate::writer::{Op, Writer};

/// A batch with less is not sent behind another one: it waits for what else comes until that is written.
const WORTH_SENDING: usize = 16;

/// Counts the appends that are expected of the runs that were told last.
#[derive(Debug, Default)]
pub(super) struct Expected {
    left: AtomicUsize,
    all_came: Notify,
}

impl Expected {
    /// So many runs are told next, and are about to append. Of many, some have other things to do first, and are not waited
    /// for.
    pub(super) fn of(&self, runs: usize) {
        self.left.store(runs - runs / 8, Ordering::Release);
    }

    /// An append was queued for which its run waits.
    pub(super) fn came(&self) {
        let fewer = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer) == Ok(1) {
            self.all_came.notify_one();
        }
    }

    fn have_come(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

/// A batch on its way.
pub(super) struct Flight {
    way: BoxFuture<'static, Landed>,
    landed: Option<Landed>,
    /// Those that it creates or appends to.
    runs: HashSet<RunId>,
}

impl Flight {
    /// Ready when the server has answered. May be dropped and called again.
    async fn lands(&mut self) {
        if self.landed.is_none() {
            self.landed = Some((&mut self.way).await);
        }
    }

    async fn answer(self) -> Landed {
        match self.landed {
            Some(landed) => landed,
            None => self.way.await,
        }
    }
}

/// A batch, and what the server has answered.
pub(super) struct Landed {
    pub(super) batch: Batch,
    pub(super) written: Result<Passed, OpError>,
}

impl Writer {
    /// Makes a batch ready to be written beside others; gives it back if it must be written alone, or has become empty.
    pub(super) fn take_off(&mut self, mut batch: Batch) -> Result<Flight, Batch> {
        self.keep_order(&mut batch);
        self.leaving.take(&mut batch);
        // Of creations that were tried before it is asked more than whether they are new.
        let is_sure = batch.creations.iter().all(|creation| creation.lost.is_empty());
        if batch.is_empty() || batch.hurried || !is_sure || needs_steps(&batch) || !self.conn.is_sound() {
            return Err(batch);
        }
        let created = batch.creations.iter().map(|creation| creation.new.id.clone());
        let runs = batch.groups.keys().map(|(_, run)| run.clone()).chain(created).collect();
        let link = self.link();
        let way = async move {
            let written = link.write(&mut batch).await;
            Landed { batch, written }
        };
        Ok(Flight { way: way.boxed(), landed: None, runs })
    }

    /// Sends a batch, if it is not at the server already, and answers what is decided of it. Where something is left to do
    /// about it, the one behind it is waited for, and what is left of both is written again.
    pub(super) async fn fly(&mut self, flight: Flight) {
        let landed = self.watch(flight).await;
        let (first, error) = self.decide(landed);
        if first.is_empty() {
            return;
        }
        // What is decided does not wait for what is not.
        self.tell_written();
        self.put_back();
        // Whatever the server is asked from here on, and while it is away, all that is not answered is in here.
        let mut work = Vec::new();
        if let Some(behind) = self.behind.take() {
            let landed = behind.answer().await;
            let (second, error) = self.decide(landed);
            work.push(match error {
                Some(error) => self.once_more(&error, second),
                None => second,
            });
            self.tell_written();
        }
        match error {
            Some(error) => self.take_answer(Landed { batch: first, written: Err(error) }, &mut work).await,
            None => work.push(first),
        }
        self.settle(work).await;
    }

    /// Takes what is decided out of a batch. Gives the groups that were refused, or all of it with an error.
    fn decide(&mut self, Landed { batch, written }: Landed) -> (Batch, Option<OpError>) {
        match written {
            Ok(passed) => {
                self.note_written(&batch);
                (self.decided(batch, &passed, None), None)
            }
            Err(error) => (batch, Some(error)),
        }
    }

    /// A batch that failed behind another one. It is written after that, and meets again whatever was in its way.
    fn once_more(&mut self, error: &OpError, mut batch: Batch) -> Batch {
        if let OpError::Driver(error) = error {
            match failure(error) {
                // It is looked for what of it is there.
                Failure::Lost => self.conn.give_up(),
                Failure::Slow => batch.hurried = true,
                _ => {}
            }
        }
        batch
    }

    /// Waits for the answer to a batch. The runs of the last one are told as soon as it is sent.
    async fn watch(&mut self, mut flight: Flight) -> Landed {
        let _queued = poll!(pin!(flight.lands()));
        // The connection sends it.
        tokio::task::yield_now().await;
        self.tell_written();
        while flight.landed.is_none() && self.may_send_behind() {
            let takes_more = self.gather_behind(&flight);
            if self.is_worth_sending(takes_more) {
                let batch = self.filled();
                match self.take_off(batch) {
                    Ok(behind) => return self.watch_both(flight, behind).await,
                    Err(alone) => self.put_back_of(alone),
                }
                break;
            }
            if !takes_more {
                break;
            }
            let expected = self.expected.clone();
            if let Either::Left(_) = select(pin!(flight.lands()), pin!(expected.all_came.notified())).await {
                break;
            }
        }
        flight.answer().await
    }

    /// Waits for the answer to the first of two batches. Both are listened to: nothing is read from the connection while
    /// answers lie there that nobody takes, and the first may have more than one request to make.
    async fn watch_both(&mut self, mut flight: Flight, mut behind: Flight) -> Landed {
        #[cfg(test)]
        self.database.sent_behind.fetch_add(1, Ordering::Relaxed);
        let second = async {
            behind.lands().await;
            std::future::pending::<()>().await
        };
        let _landed = select(pin!(second), pin!(flight.lands())).await;
        self.behind = Some(behind);
        flight.answer().await
    }

    /// Whether what was gathered is sent now: it is not small, and those who were told have come, or nothing more can be
    /// taken.
    fn is_worth_sending(&self, takes_more: bool) -> bool {
        let is_complete = !takes_more || self.expected.have_come();
        !self.has_room() || (is_complete && self.filling.batch.len() >= WORTH_SENDING)
    }

    /// Whether nothing is to be looked after between two batches: what is held up is tried when its time has come, with
    /// nothing behind it. A pooler may serve two batches by two sessions.
    fn may_send_behind(&self) -> bool {
        let tries_later = self.next_of_later().is_some_and(|at| at <= Instant::now());
        let is_ending = self.closing.is_some() || self.stuck.is_some() || !self.leaving.is_empty();
        !tries_later && !is_ending && self.barriers.is_empty() && !self.conn.is_pooled()
    }

    /// Takes what is queued while a batch is at the server; `false` if something has to wait until that is written.
    fn gather_behind(&mut self, flight: &Flight) -> bool {
        while self.has_room() {
            let Some(op) = self.waiting.pop_front().or_else(|| self.ops.try_recv().ok()) else { return true };
            let waits = match &op {
                Op::Append(item) => flight.runs.contains(&item.append.run) || item.append.renews.is_some(),
                Op::Create(creation) => flight.runs.contains(&creation.new.id) || !creation.ledger.is_empty(),
                Op::Barrier(..) | Op::Moved(..) | Op::Close(_) => true,
            };
            if waits {
                self.waiting.push_front(op);
                return false;
            }
            if !self.take(op) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn the_last_of_those_who_are_expected_wakes_the_writer_and_later_ones_do_not() {
        let expected = Expected::default();
        assert!(expected.have_come());
        expected.came();
        assert_eq!(expected.all_came.notified().now_or_never(), None, "nobody was expected");
        expected.of(2);
        expected.came();
        assert!(!expected.have_come());
        assert_eq!(expected.all_came.notified().now_or_never(), None);
        expected.came();
        assert!(expected.have_come());
        assert_eq!(expected.all_came.notified().now_or_never(), Some(()));
        expected.came();
        assert_eq!(expected.all_came.notified().now_or_never(), None);
        expected.of(17);
        (0..15).for_each(|_| expected.came());
        assert_eq!(expected.all_came.notified().now_or_never(), Some(()), "two of seventeen are late");
    }
}
