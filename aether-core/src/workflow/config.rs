//! Configuration that a workflow reads: a value that the program provides, recorded.
//!
//! Promise: every replay sees the value that the first run saw, whatever the program provides by then.

use std::marker::PhantomData;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::definition::def::{StepDef, StepOptions};
use crate::step::body::Step;
use crate::step::context::StepCx;
use crate::step::recordable::Recordable;
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::outcome::{EffectClass, FailureClass};
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::workflow::context::{Cx, call_step};
use crate::workflow::gate::BoxEffect;

impl Cx {
    /// A copy of the value of type `T` that the program provides with
    /// [`EngineBuilder::provide`](crate::engine::EngineBuilder::provide). Recorded, as a read step of the name `config`:
    /// every replay sees the same, so a changed configuration counts for runs that read it after the change.
    ///
    /// Do not keep secrets in it: what is recorded is in the journal. A step's body gets those with
    /// [`StepCx::dep`](crate::step::StepCx::dep).
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// #[derive(Clone, serde::Serialize, serde::Deserialize)]
    /// struct Rules {
    ///     approve_above_cents: u64,
    /// }
    ///
    /// # async fn workflow(cx: &mut Cx, cents: u64) -> Result<()> {
    /// // In an async function with `#[workflow]`; the program calls `.provide(Rules { .. })`.
    /// let rules: Rules = cx.config().await?;
    /// if cents > rules.approve_above_cents {
    ///     // ask somebody
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StepError`] when the value does not serialize or is over a limit. Where the program provides none, the run stops
    /// with [`Fault::NotProvided`](crate::run::Fault::NotProvided), and resumes in a program that does.
    pub fn config<T>(&mut self) -> BoxEffect<'_, Result<T, StepError<Failure>>>
    where
        T: Recordable + Clone + Sync,
    {
        call_step::<ReadConfig<T>>(self, Payload::encode(&()))
    }
}

/// Path of the step that reads configuration.
pub const CONFIG_PATH: &str = "aether::config";

/// The step that reads the value.
struct ReadConfig<T>(PhantomData<fn() -> T>);

impl<T: Recordable + Clone + Sync> Step for ReadConfig<T> {
    const DEF: &'static StepDef = &StepDef {
        name: "config",
        path: CONFIG_PATH,
        doc: "Reads a value that the program provides.",
        file: file!(),
        line: line!(),
        options: StepOptions::of(EffectClass::Read),
        allows: &[],
    };
    type Args = ();
    type Output = T;
    type Error = Failure;

    fn encode(args: &()) -> Result<Payload, PayloadError> {
        Payload::encode(args)
    }

    fn decode(args: &Payload) -> Result<(), PayloadError> {
        args.decode()
    }

    fn call(cx: StepCx, (): ()) -> BoxFuture<'static, Result<T, Failure>> {
        async move { Ok(T::clone(&*cx.dep::<T>()?)) }.boxed()
    }

    fn classify(_: &Failure) -> FailureClass {
        FailureClass::Permanent
    }
}
