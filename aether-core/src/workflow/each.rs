//! `each`: one body for every item of a list, of which so many run at a time as its limit says.
//!
//! Promise: an item begins where a slot is free, and is polled at once, before anything else of the run goes on. In a replay it
//! begins at the same place: above the limit only where history holds commands of it that nothing else can lead to, because it
//! was recorded under a higher limit.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

use crate::run::claim::Run;
use crate::sched::AtomicUsize;
use crate::vocabulary::id::CommandId;
use crate::workflow::context::Cx;
use crate::workflow::gate::{Effect, WorkflowCode, recorded_wrapper};

/// The body of [`Cx::each`]: it borrows what it reads, and changes only what is its own, because its branches run side by
/// side. Implemented for every body that is `Clone`: a closure that borrows a variable mutably is not.
#[diagnostic::on_unimplemented(
    message = "[AE0123] a branch of `cx.each` changes a variable that is not its own, or owns a value that is not `Clone`",
    label = "not a body of an each",
    note = "branches run side by side: return the value from the branch, and `cx.each` collects the values in the order of the items; change the variable with them behind the await",
    note = "a body may own a value only if that is `Clone`, because every branch gets one: borrow it in the branch, or derive `Clone` for its type"
)]
pub trait EachBody: Clone {}

#[diagnostic::do_not_recommend]
impl<F: Clone> EachBody for F {}

impl Cx {
    /// Runs `body` for every item, concurrently, and returns the values in the order of the items.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let drawn: Vec<u64> = cx.each(0..10, async |cx: &mut Cx, i| cx.random().await % (i + 1)).limit(4).await;
    /// # }
    /// ```
    pub fn each<I, T, F, R>(&mut self, items: I, body: F) -> Each<impl Future<Output = Vec<R>>>
    where
        I: IntoIterator<Item = T>,
        F: AsyncFnOnce(&mut Cx, T) -> R + EachBody,
    {
        let (mut ticket, fork) = self.fork("each");
        let items: Vec<T> = items.into_iter().collect();
        let limit = Arc::new(AtomicUsize::new(usize::MAX));
        let chosen = Arc::clone(&limit);
        let effect = Effect::new(async move {
            ticket.enter().await;
            fork.check().await;
            let count = items.len();
            let waiting = items.into_iter().enumerate().map(|(number, item)| {
                let mut cx = fork.branch('i', number);
                let body = body.clone();
                WorkflowCode::of(cx.log_scope(), async move { (number, body(&mut cx, item).await) })
            });
            let mut items = Items {
                run: Arc::clone(&ticket.run),
                // An item that the list does not have can never be needed.
                recorded: ticket.run.begun_items(&ticket.command).min(count),
                command: ticket.command.clone(),
                limit: chosen.load(Ordering::Relaxed).max(1),
                begun: 0,
                waiting,
                running: FuturesUnordered::new(),
                values: std::iter::repeat_with(|| None).take(count).collect(),
            };
            poll_fn(|w| items.poll(w)).await;
            items.values.into_iter().flatten().collect()
        });
        Each { effect, limit }
    }
}

/// The items of an [`Cx::each`]: those that wait for a slot, and those that run.
struct Items<I, B, R> {
    run: Arc<Run>,
    command: CommandId,
    limit: usize,
    /// How many of the items, from the first one on, history may hold commands of.
    recorded: usize,
    /// How many have begun.
    begun: usize,
    waiting: I,
    running: FuturesUnordered<B>,
    values: Vec<Option<R>>,
}

impl<I, B, R> Items<I, B, R>
where
    I: Iterator<Item = B>,
    B: Future<Output = (usize, R)> + Unpin,
{
    /// Ready when all items have ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            while self.running.len() < self.limit && self.begin_next(cx) {}
            match self.running.poll_next_unpin(cx) {
                Poll::Ready(Some(ended)) => self.keep(ended),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending if self.is_next_needed(cx) && self.begin_next(cx) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Begins the next item, up to its first effect; returns whether there was one.
    fn begin_next(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(mut item) = self.waiting.next() else { return false };
        self.begun += 1;
        let polled = {
            let _beginning = self.run.begin_branches();
            item.poll_unpin(cx)
        };
        match polled {
            Poll::Ready(ended) => self.keep(ended),
            // It is polled again, because it is new there.
            Poll::Pending => self.running.push(item),
        }
        true
    }

    /// Whether the replay cannot go on without the next item.
    fn is_next_needed(&self, cx: &Context<'_>) -> bool {
        self.begun < self.recorded && self.run.needs_item(&self.command, self.begun, cx.waker())
    }

    fn keep(&mut self, (number, value): (usize, R)) {
        if let Some(slot) = self.values.get_mut(number) {
            *slot = Some(value);
        }
    }
}

/// The effect of [`Cx::each`].
#[must_use = "an effect does nothing until it is awaited"]
#[derive(Debug)]
pub struct Each<F> {
    effect: Effect<F>,
    limit: Arc<AtomicUsize>,
}

impl<F> Each<F> {
    /// Runs at most `limit` items at a time, and at least one. Without it, all of them run at once.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let drawn = cx.each(0..100, async |cx: &mut Cx, _| cx.random().await).limit(4).await;
    /// # }
    /// ```
    pub fn limit(self, limit: usize) -> Self {
        self.limit.store(limit, Ordering::Relaxed);
        self
    }
}

impl<F: Future> Future for Each<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut self.effect).poll(cx)
    }
}

recorded_wrapper!(Each<F>, effect);
