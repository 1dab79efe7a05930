//! Admission at the effect gate: an attempt waits where this process keeps calls back.
//!
//! Promise: the wait comes before the intent, writes nothing, and ends with the run's cancellation or the engine's shutdown;
//! a run that leaves the memory in it asks again when it comes back.

use jiff::Timestamp;

use crate::perform::call::StepCall;
use crate::run::claim::WaitGuard;
use crate::step::body::Admission;
use crate::vocabulary::environment::later;
use crate::vocabulary::net::in_net;

impl StepCall {
    /// Waits until the attempt may begin, unless it has a place already. `may_leave`: nothing is lost if the run leaves the
    /// memory meanwhile.
    pub(crate) async fn admit(&mut self, may_leave: bool) {
        if may_leave {
            self.place = None;
        }
        // In a simulation nothing is called that could be too much for anybody.
        if self.place.is_some() || self.run.shared.interceptor.is_some() {
            return;
        }
        while let Ok(Some(asked)) = in_net(|| self.body.admit(&self.run.shared.deps)) {
            let admission = {
                let _here = self.wait_in_memory();
                asked.await
            };
            match admission {
                Admission::Now(place) => self.place = Some(place),
                Admission::Later(wait) if may_leave => self.wait_until(later(self.run.now(), wait)).await,
                Admission::Later(wait) => {
                    let _here = self.wait_in_memory();
                    self.run.shared.environment.sleep(wait).await;
                }
            }
            if may_leave {
                self.run.still_open().await;
            }
            if self.place.is_some() {
                return;
            }
        }
        // Nothing kept it back, and what is said of the peer from here on does not: behind the intent nothing waits.
        self.place = Some(Box::new(()));
    }

    /// A wait that is due whatever the clock says, so that the run stays in memory and keeps its place in the line; and that
    /// is not in flight, so that neither a cancellation nor a shutdown waits for it.
    fn wait_in_memory(&self) -> WaitGuard {
        self.run.wait(self.command.clone(), Some(Timestamp::MIN))
    }
}
