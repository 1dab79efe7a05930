//! Marks: where the code of a workflow was changed while runs were open, and which path a run takes there.
//!
//! Promise: a mark has a name and no number, so adding or removing one changes no other command. A run keeps the version it
//! has; asking costs no durable write of its own.

use std::ops::RangeInclusive;

use crate::workflow::context::Cx;
use crate::workflow::gate::BoxEffect;

impl Cx {
    /// Which version of a change this run has: the mark of a place whose code was changed while runs were open.
    ///
    /// A run that passed this place before the mark was there has the lowest version of the range. One that comes here for
    /// the first time gets the highest, which is recorded. From then on the name has this version in the whole run,
    /// wherever and however often it is asked: in loops, in branches, and in inline workflows. A child run has marks of its
    /// own.
    ///
    /// In `#[workflow]` name and range are literals. Once no open run needs the lowest version, raise the lower end of the
    /// range and delete its path; a later deploy can drop the mark.
    /// [`Engine::changes`](crate::engine::Engine::changes) says when.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # async fn foo(_: &mut Cx) -> Result<u32> { Ok(1) }
    /// # async fn baz(_: &mut Cx) -> Result<u32> { Ok(2) }
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let price = match cx.version("use-baz", 1..=2).await {
    ///     1 => foo(cx).await?,
    ///     _ => baz(cx).await?,
    /// };
    /// # Ok(()) }
    /// ```
    ///
    /// A run whose version is outside of the range stops with [`Fault::MarkOutOfRange`](crate::run::Fault::MarkOutOfRange)
    /// and is resumed by a build that has a path for it.
    pub fn version(&mut self, name: &str, range: RangeInclusive<u32>) -> BoxEffect<'_, u32> {
        self.ask_version(name, range, false)
    }

    /// As [`Cx::version`], with a version for each time it is asked, for a loop that runs for months: a round that was begun
    /// before the change is finished as it was begun, and later rounds take the new path. Where no command of the same
    /// scope is between two calls, both have one version.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use std::time::Duration;
    /// # async fn send_mail(_: &mut Cx) {}
    /// # async fn send_push(_: &mut Cx) {}
    /// # async fn workflow(cx: &mut Cx) {
    /// loop {
    ///     cx.sleep(Duration::from_secs(24 * 60 * 60)).await;
    ///     match cx.version_each("push", 1..=2).await {
    ///         1 => send_mail(cx).await,
    ///         _ => send_push(cx).await,
    ///     }
    /// }
    /// # }
    /// ```
    pub fn version_each(&mut self, name: &str, range: RangeInclusive<u32>) -> BoxEffect<'_, u32> {
        self.ask_version(name, range, true)
    }

    fn ask_version(&mut self, name: &str, range: RangeInclusive<u32>, each: bool) -> BoxEffect<'_, u32> {
        let (mark, mut ticket) = self.mark(name, range.into_inner(), each);
        BoxEffect::boxed(async move {
            let site = ticket.enter().await;
            ticket.run.version(&mark, site).await
        })
    }
}
