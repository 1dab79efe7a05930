//! The surroundings of a run: its time, seed and id, what bodies are given, the store, and what happens beside the run.
//!
//! Promise: what a test does not set is the same in every simulation.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aether_core::limits::Limits;
use aether_core::policy::Verifier;
use aether_core::recording::Masking;
use aether_core::store::Store;
use aether_core::workflow::Workflow;
use jiff::Timestamp;

use super::sim::Sim;
use crate::sim::live::Live;
use crate::stores::crash_point::CrashPoint;
use crate::trap::setting::Trap;

/// Time, seed and surroundings.
impl<W: Workflow> Sim<W> {
    /// Begins the simulation at this time. Default 2026-01-01T00:00:00Z.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn year(cx: &mut Cx) -> Result<String> { Ok(cx.now().await.to_string()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<year>().at("2024-02-29T12:00:00Z".parse().unwrap());
    /// assert_eq!(sim.run(()).await.assert_completed(), "2024-02-29T12:00:00Z");
    /// # }
    /// ```
    pub fn at(self, at: Timestamp) -> Self {
        self.with(|settings| settings.at = at)
    }

    /// Draws ids and random values from this seed. Default 0.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn draw(cx: &mut Cx) -> Result<u64> { Ok(cx.random().await) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let drawn = async |seed| Sim::new::<draw>().seed(seed).run(()).await.assert_completed().clone();
    /// assert_eq!(drawn(1).await, drawn(1).await);
    /// assert_ne!(drawn(1).await, drawn(2).await);
    /// # }
    /// ```
    pub fn seed(self, seed: u64) -> Self {
        self.with(|settings| settings.seed = seed)
    }

    /// Names the run. Default `sim`.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn double(cx: &mut Cx, number: u32) -> Result<u32> { Ok(number * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<double>().id("order-7").run(7).await;
    /// assert_eq!(report.view.run.to_string(), "order-7");
    /// # }
    /// ```
    pub fn id(self, id: impl Into<String>) -> Self {
        self.with(|settings| settings.id = id.into())
    }

    /// Gives the run this version at the mark `name`, as if it had come there when the code was older. Without it a run gets
    /// the highest version of the range.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn price(cx: &mut Cx) -> Result<u32> {
    /// # Ok(match cx.version("use-baz", 1..=2).await { 1 => 100, _ => 200 })
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// assert_eq!(Sim::new::<price>().run(()).await.assert_completed(), &200);
    /// assert_eq!(Sim::new::<price>().mark("use-baz", 1).run(()).await.assert_completed(), &100);
    /// # }
    /// ```
    pub fn mark(self, name: impl Into<String>, version: u32) -> Self {
        self.script(|scripts| {
            scripts.marks.insert(name.into(), version);
        })
    }

    /// Gives the run this much virtual time. Default 366 days.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{Sim, SimError};
    /// # use std::time::Duration;
    /// # #[workflow] async fn nap(cx: &mut Cx) -> Result<()> { cx.sleep(Duration::from_secs(3600)).await; Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let error = Sim::new::<nap>().within(Duration::from_secs(60)).try_run(()).await.unwrap_err();
    /// assert!(matches!(error, SimError::Unfinished { .. }));
    /// # }
    /// ```
    pub fn within(self, within: Duration) -> Self {
        self.with(|settings| settings.within = within)
    }

    /// Sets what the engine refuses to exceed.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether::engine::Limits;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "read")] async fn read(cx: &mut StepCx) -> Result<String> { unreachable!() }
    /// # #[workflow] async fn load(cx: &mut Cx) -> Result<String> { Ok(read(cx).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let limits = Limits { payload: 1000, ..Limits::default() };
    /// let sim = Sim::new::<load>().limits(limits).stub::<read>(|()| Ok("x".repeat(2000)));
    /// sim.run(()).await.assert_failed();
    /// # }
    /// ```
    pub fn limits(self, limits: Limits) -> Self {
        self.with(|settings| settings.limits = limits)
    }

    /// Replaces what `masking` finds before it is recorded, as `Engine::builder().redact(..)` does.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether::recording::Masking;
    /// # use aether_testing::Sim;
    /// #[step(effect = "read")]
    /// async fn look_up(cx: &mut StepCx, card: String) -> Result<String> { unreachable!() }
    ///
    /// #[workflow]
    /// async fn pay(cx: &mut Cx, card: String) -> Result<String> { Ok(look_up(cx, card).await?) }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<pay>().redact(Masking::standard().text("4111-1111")).stub::<look_up>(Ok);
    /// let report = sim.run("card 4111-1111".to_owned()).await;
    /// assert_eq!(report.assert_completed(), "card ***");
    /// # }
    /// ```
    pub fn redact(self, masking: Masking) -> Self {
        self.with(|settings| settings.redact = Some(masking))
    }

    /// Gives real bodies a value, which they get with `cx.dep::<T>()`.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// /// The price list.
    /// struct Prices(u32);
    ///
    /// #[step(effect = "read")]
    /// async fn price(cx: &mut StepCx) -> Result<u32> {
    ///     Ok(cx.dep::<Prices>()?.0)
    /// }
    ///
    /// # #[workflow] async fn ask(cx: &mut Cx) -> Result<u32> { Ok(price(cx).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<ask>().provide(Prices(7)).real::<price>();
    /// assert_eq!(sim.run(()).await.assert_completed(), &7);
    /// # }
    /// ```
    pub fn provide<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with(|settings| settings.deps.insert(value))
    }

    /// Looks with `verifier` at resources of `kind`. Without it, every resource of every kind that a step of the program
    /// declares is found unchanged.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether::resource::FileVerifier;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn double(cx: &mut Cx, number: u32) -> Result<u32> { Ok(number * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<double>().verifier("file", FileVerifier::new());
    /// sim.run(21).await.assert_completed();
    /// # }
    /// ```
    pub fn verifier(self, kind: impl Into<String>, verifier: impl Verifier) -> Self {
        self.with(|settings| settings.verifiers.push((kind.into(), Arc::new(verifier))))
    }

    /// What happens when workflow code calls libc for something that replay would not reproduce: by default the
    /// simulation ends with an error that names the call; see [`Trap`].
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{Sim, Trap};
    /// # #[workflow] async fn double(cx: &mut Cx, number: u32) -> Result<u32> { Ok(number * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<double>().trap(Trap::warn().allow("src/metrics.rs")).run(21).await;
    /// assert!(report.trapped.is_empty());
    /// # }
    /// ```
    pub fn trap(self, trap: Trap) -> Self {
        self.with(|settings| settings.trap = trap)
    }

    /// Does something while the run is running, for example cancels it. After a crash it begins anew.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{Live, Sim};
    /// # use std::time::Duration;
    /// # #[workflow] async fn nap(cx: &mut Cx) -> Result<()> { cx.sleep(Duration::from_secs(3600)).await; Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<nap>().meanwhile(|live: Live| async move {
    ///     live.sleep(Duration::from_secs(60)).await;
    ///     live.cancel("no longer needed", "ann").await.unwrap();
    /// });
    /// let report = sim.run(()).await;
    /// assert!(report.assert_failed().to_string().contains("no longer needed"));
    /// # }
    /// ```
    pub fn meanwhile<F>(self, act: impl Fn(Live) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.with(|settings| settings.meanwhile = Some(Arc::new(move |live| Box::pin(act(live)))))
    }

    /// Puts a store around the simulation's own, such as a [`FailingStore`](crate::failing::FailingStore).
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{FailingStore, Sim};
    /// # use std::sync::Arc;
    /// # #[workflow] async fn double(cx: &mut Cx, number: u32) -> Result<u32> { Ok(number * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let full = aether::store::StoreError::Full { store: "disk".into(), reason: "no space left".into() };
    /// let sim = Sim::new::<double>()
    ///     .wrap_store(move |inner| Arc::new(FailingStore::new(inner).append_fails(1, full.clone())));
    /// assert!(sim.run(21).await.assert_failed().to_string().contains("no space left"));
    /// # }
    /// ```
    pub fn wrap_store(self, wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.wrap = Some(Arc::new(wrap)))
    }

    /// Puts a store between the engine of each process and the store that dies with it. The closure gets the number of
    /// the process, from 1. For tests of the sweeps themselves.
    #[doc(hidden)]
    pub fn front_store(
        self,
        front: impl Fn(Arc<dyn Store>, usize) -> Arc<dyn Store> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.front = Some(Arc::new(front)))
    }

    /// Called before each run of the simulation: puts the world outside, such as a folder that real bodies write to,
    /// back as it was.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # #[workflow] async fn double(cx: &mut Cx, number: u32) -> Result<u32> { Ok(number * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let runs = Arc::new(AtomicU32::new(0));
    /// let counted = runs.clone();
    /// let sim = Sim::new::<double>().prepare(move || drop(counted.fetch_add(1, Ordering::Relaxed)));
    /// sim.crash_at_every_boundary(21).await;
    /// assert!(runs.load(Ordering::Relaxed) > 4);
    /// # }
    /// ```
    pub fn prepare(self, prepare: impl Fn() + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.prepare = Some(Arc::new(prepare)))
    }

    /// Lets the process die at its write of this number (from 1), which does not happen. A second call crashes the
    /// next process, whose writes are counted from 1 again.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{CrashPoint, Sim};
    /// # #[workflow] async fn draw(cx: &mut Cx) -> Result<u64> { Ok(cx.random().await) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = Sim::new::<draw>().crash_at(2).crash(CrashPoint::After(1)).run(()).await;
    /// report.assert_completed();
    /// assert_eq!(report.crashes, 2);
    /// # }
    /// ```
    pub fn crash_at(self, write: u64) -> Self {
        self.crash(CrashPoint::Before(write))
    }

    /// Lets the process die at this point; see [`Sim::crash_at`], where there is an example.
    pub fn crash(self, point: CrashPoint) -> Self {
        self.with(|settings| settings.crashes.push(point))
    }
}
