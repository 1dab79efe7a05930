//! Configuration that a workflow reads: a value that the program provides, recorded.
//!
//! Promise: every replay sees the value that the first run saw, whatever the program provides by then.

use std::marker::PhantomData;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::step::body::{Declared, ErrorClass, Step};
use crate::step::context::StepCx;
use crate::step::recordable::{Recordable, Signature};
use crate::vocabulary::failure::{Failure, StepError};
use crate::vocabulary::outcome::{EffectClass, FailureClass};
use crate::vocabulary::payload::{Payload, PayloadError};
use crate::workflow::context::{Cx, call_step};
use crate::workflow::gate::BoxEffect;

impl Cx {
    /// A copy of the value of type `T` that the program provides with
    /// [`EngineBuilder::provide`](crate::engine::EngineBuilder::provide). Recorded, as a read step of the name `config`:
    /// every replay sees the same, so a changed configuration counts for runs that read it after the change. Its argument is
    /// the name of `T` without modules: a type of another name is another value, and open runs are not handed the value of
    /// one for the other.
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
        call_step::<ReadConfig<T>>(self, Payload::encode(&name_of::<T>()))
    }
}

/// Path of the step that reads configuration.
pub const CONFIG_PATH: &str = "aether::config";

/// The step that reads the value.
struct ReadConfig<T>(PhantomData<fn() -> T>);

impl<T: Recordable> Signature for ReadConfig<T> {
    type Returned = Result<T, Failure>;
}

impl<T: Recordable + Clone + Sync> Step for ReadConfig<T> {
    const DECLARED: Declared<Self::Returned> = Declared {
        name: "config",
        path: CONFIG_PATH,
        function: "",
        fingerprint: "",
        doc: "Reads a value that the program provides.",
        file: file!(),
        line: line!(),
        class: EffectClass::Read,
        classify: |_| ErrorClass { class: FailureClass::Permanent, ..ErrorClass::default() },
    };
    /// Name of the type.
    type Args = String;

    fn encode(args: &String) -> Result<Payload, PayloadError> {
        Payload::encode(args)
    }

    /// Older journals do not say which type was read.
    fn decode(args: &Payload) -> Result<String, PayloadError> {
        let recorded: Option<String> = args.decode()?;
        Ok(recorded.unwrap_or_else(name_of::<T>))
    }

    fn call(cx: StepCx, _: String) -> BoxFuture<'static, Result<T, Failure>> {
        async move { Ok(T::clone(&*cx.dep::<T>()?)) }.boxed()
    }
}

/// Name of a type, without the modules of it and of its parameters: they move more often than a type changes its name.
fn name_of<T>() -> String {
    let mut name = String::new();
    for letter in std::any::type_name::<T>().chars() {
        name.push(letter);
        if name.ends_with("::") {
            let module = name.trim_end_matches("::").rfind(|c: char| !c.is_alphanumeric() && c != '_');
            name.truncate(module.map_or(0, |before| before + 1));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn the_name_of_a_type_says_nothing_of_modules() {
        assert_eq!(name_of::<u64>(), "u64");
        assert_eq!(name_of::<std::time::Duration>(), "Duration");
        assert_eq!(name_of::<Vec<std::time::Duration>>(), "Vec<Duration>");
        let pair = name_of::<(std::collections::BTreeMap<String, std::time::Duration>, [u8; 4])>();
        assert_eq!(pair, "(BTreeMap<String, Duration>, [u8; 4])");
    }
}
