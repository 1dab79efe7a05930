//! The children that a run waits for, and when it looks for their ends.
//!
//! Promise: the end of a child in this process is looked for at once, and one elsewhere within a second more than a poll
//! interval; how often the store is asked does not grow with the time that is waited, nor with the ends of other children.

use std::time::Duration;

use crate::run::claim::Run;
use crate::vocabulary::environment::next_look;
use crate::vocabulary::id::RunId;

/// A wait for a child, until it is dropped.
pub(crate) struct AwaitedChild<'r> {
    run: &'r Run,
    child: &'r RunId,
    began: Duration,
    /// When it is looked for again, by the monotonic clock.
    next: Duration,
}

impl<'r> AwaitedChild<'r> {
    /// `run` waits for `child` from now on.
    pub(crate) fn new(run: &'r Run, child: &'r RunId) -> Self {
        let began = run.shared.environment.monotonic();
        run.lock().awaited.insert(child.clone(), false);
        Self { run, child, began, next: began }
    }

    /// Whether it is time to look: the child has ended here, or it was not looked for for a while.
    pub(crate) fn is_time(&mut self) -> bool {
        let has_ended = self.run.lock().awaited.insert(self.child.clone(), false) == Some(true);
        has_ended || self.run.shared.environment.monotonic() >= self.next
    }

    /// It was looked for in vain.
    pub(crate) fn goes_on(&mut self) {
        let now = self.run.shared.environment.monotonic();
        self.next = now.saturating_add(next_look(now.saturating_sub(self.began)));
    }
}

impl Drop for AwaitedChild<'_> {
    fn drop(&mut self) {
        self.run.lock().awaited.remove(self.child);
    }
}

impl Run {
    /// A child has ended in this process: who waits for it here looks for its end. [`Run::notify`] wakes it.
    pub(crate) fn note_ended(&self, child: &RunId) {
        if let Some(has_ended) = self.lock().awaited.get_mut(child) {
            *has_ended = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::def::StepOptions;
    use crate::perform::tests::stage::Stage;
    use crate::vocabulary::outcome::EffectClass;

    /// Looks of a wait that is woken every 200 ms.
    fn looks(stage: &Stage, awaited: &mut AwaitedChild<'_>, wakes: u32) -> u32 {
        let mut looks = 0;
        for _ in 0..wakes {
            stage.pause(Duration::from_millis(200));
            if awaited.is_time() {
                looks += 1;
                awaited.goes_on();
            }
        }
        looks
    }

    #[test]
    fn a_child_that_ends_here_is_looked_for_at_once_and_others_seldom() {
        let stage = Stage::new(StepOptions::of(EffectClass::Workflow));
        let run = stage.take_up();
        let [one, other] = ["one", "other"].map(|id| RunId::new(id).unwrap());
        let (mut of_one, mut of_other) = (AwaitedChild::new(&run, &one), AwaitedChild::new(&run, &other));
        assert!(of_one.is_time() && of_other.is_time(), "at once");
        of_one.goes_on();
        of_other.goes_on();
        // Within two seconds at each wake, and then less and less often, up to once a second.
        assert_eq!(looks(&stage, &mut of_one, 10), 10);
        assert!(looks(&stage, &mut of_one, 250) <= 55);
        assert_eq!(looks(&stage, &mut of_one, 500), 100);
        assert!(of_other.is_time());
        of_other.goes_on();
        // The end of one is nothing to the other.
        run.note_ended(&one);
        assert!(of_one.is_time() && !of_other.is_time());
        of_one.goes_on();
        assert!(!of_one.is_time(), "it is told once");
        // Nobody waits for it any more.
        drop(of_one);
        run.note_ended(&one);
        assert!(!run.lock().awaited.contains_key(&one));
    }
}
