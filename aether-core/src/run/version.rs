//! The version of a run at a mark: the one it has, or the highest one where it comes to the mark for the first time.
//!
//! Promise: a version that workflow code has seen is in the journal with the first thing that the code does with it, and not
//! earlier: a build that goes back finds nothing that binds the run. A run whose version the code does not know stops with a
//! fault and loses nothing.

use std::future::poll_fn;

use crate::journal::event::Event;
use crate::journal::version_marks::Mark;
use crate::policy::replay::Mode;
use crate::run::append::AppendExtras;
use crate::run::claim::Run;
use crate::run::fault::{CommandSummary, Fault};
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::EffectClass;

impl Run {
    /// The version of the run at `mark`.
    pub(crate) async fn version(&self, mark: &Mark, site: Option<String>) -> u32 {
        let version = match self.known_version(mark).await {
            Some(known) => known,
            None => self.first_version(mark, site).await,
        };
        if (mark.from..=mark.to).contains(&version) {
            return version;
        }
        self.stop(Fault::MarkOutOfRange {
            run: self.id.clone(),
            mark: mark.name().to_owned(),
            command: mark.command.clone(),
            recorded: version,
            from: mark.from,
            to: mark.to,
        })
        .await
    }

    /// Waits until it is known which version the run has; `None` where it comes to the mark for the first time.
    async fn known_version(&self, mark: &Mark) -> Option<u32> {
        let _waiting = WaitingMark(self, mark);
        poll_fn(|cx| self.lock().history.version(mark, cx.waker())).await
    }

    /// The version of a mark that the run comes to for the first time.
    async fn first_version(&self, mark: &Mark, site: Option<String>) -> u32 {
        let class = EffectClass::Pure;
        let requested =
            || CommandSummary { command: mark.command.clone(), class, digest: None, site: site.clone() };
        self.consult(&mark.command, class, false, requested).await;
        self.wait_for_frontier(&mark.command).await;
        if self.mode == Mode::Verify {
            let requested = Box::new(requested());
            return self.stop(Fault::Unrecorded { run: self.id.clone(), requested }).await;
        }
        self.apply_backpressure().await;
        let interceptor = self.shared.interceptor.as_ref();
        let told = interceptor.and_then(|stub| stub.version(&self.id, &mark.command, (mark.from, mark.to)));
        self.history(|history| {
            let marks = history.marks();
            // Another branch may have come to it during the waits above.
            marks.tell(mark).unwrap_or_else(|| {
                let version = told.unwrap_or(mark.to);
                marks.decide(mark, version);
                version
            })
        })
    }

    /// The new versions on which events about `commands` rest: they are recorded in the same append, in front of those.
    pub(crate) fn marks_before<'c>(
        &self,
        commands: impl Iterator<Item = Option<&'c CommandId>> + Clone,
    ) -> Vec<Event> {
        let marked = self.history(|history| history.marks().take_before(commands));
        marked.into_iter().map(Event::from).collect()
    }

    /// Records the versions that followed from history. Called before the first thing that history does not hold, so they
    /// count from then on whatever else the code may have lost by the next replay, such as the losers of a race.
    pub(super) fn record_passed_marks(&self) {
        if self.mode == Mode::Verify {
            return;
        }
        let passed = self.history(|history| history.marks().take_unrecorded());
        if !passed.is_empty() {
            self.append(passed.into_iter().map(Event::from).collect(), AppendExtras::default());
        }
    }

    /// Releases the marks that keep a replay from continuing: the run has passed them. Returns whether there were any.
    pub(crate) fn release_marks(&self) -> bool {
        let released = {
            let mut state = self.lock();
            state.in_flight == 0 && !state.paused_for_operator && state.history.release_marks()
        };
        if released {
            self.root.wake();
        }
        released
    }
}

/// A mark that waits, until it is dropped: a branch that lost a race waits no longer.
struct WaitingMark<'r>(&'r Run, &'r Mark);

impl Drop for WaitingMark<'_> {
    fn drop(&mut self) {
        self.0.history(|history| history.marks().stop_waiting(self.1));
    }
}
