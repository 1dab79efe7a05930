//! Why an engine cannot be started.
//!
//! Promise: an error says what is wrong, where, and what to do.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::engine::adopt::report::RunCheck;
use crate::engine::needs::{MissingNeed, listed};
use crate::store::error::StoreError;
use crate::vocabulary::queue::QueueError;

/// Why an engine cannot be started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two workflows of one module have the same name and the same version. In different modules the same name is fine.
    #[error(
        "module `{module}` has two workflows that are version {version} of `{name}`, at {first} and {second}; give one of them a version of its own with `#[workflow(of = \"{name}\", version = ..)]`, or another name with `#[workflow(name = \"..\")]`"
    )]
    DuplicateWorkflow {
        /// The name that both have.
        name: &'static str,
        /// Path of the module that both belong to.
        module: &'static str,
        /// The version that both have.
        version: u32,
        /// Where the first one is, `file:line`.
        first: String,
        /// Where the second one is, `file:line`.
        second: String,
    },
    /// Production needs a store that survives a crash.
    #[error(
        "store {store} keeps nothing over a restart, and `.production()` asks for a store that survives a crash: call `.sqlite(path)` or `.postgres(url)`, or give it another such store"
    )]
    NotDurable {
        /// Kind and place of the store, as [`Store::describe`](crate::store::Store::describe) gives them.
        store: String,
    },
    /// A step declares that it changes resources of a kind that has no verifier.
    #[error(
        "step `{step}` ({place}) declares `changes = [\"{kind}\"]`, and no verifier is registered for `{kind}`: call `.verifier({kind:?}, ..)` on the engine's builder"
    )]
    NoVerifier {
        /// Module path and name of the step.
        step: &'static str,
        /// Where the step is declared, `file:line`.
        place: String,
        /// The kind of resource that has no verifier.
        kind: &'static str,
    },
    /// A pattern of [`EngineBuilder::queues`](crate::engine::EngineBuilder::queues) is not usable.
    #[error("`.queues(..)`: {0}")]
    Queues(#[from] QueueError),
    /// Open runs do not fit this program's code, and it was asked to refuse rather than park them. Nothing was changed.
    #[error(
        "{count} open runs do not fit this program, and `.on_unfit(OnUnfit::Refuse)` says not to start then:{}\nstart a program whose code fits them, change the code so that it does, or start with `OnUnfit::Park`",
        told(.first)
    )]
    OpenRunsNeedOtherCode {
        /// How many runs do not fit.
        count: usize,
        /// The first of them, at most twenty, each with the difference and both source lines.
        first: Vec<RunCheck>,
    },
    /// Values that the linked steps and workflows take are not provided.
    #[error(
        "the program does not provide what its steps and workflows take:{}\nprovided are: {provided}; where this program links a step that it never runs, call `.without::<step>()`, or `.allow_missing_deps()` for all",
        listed(.missing)
    )]
    MissingDeps {
        /// What is missing, by the name of the type.
        missing: Vec<MissingNeed>,
        /// Names of the types that were provided.
        provided: String,
    },
    /// Linked steps with `effect = "transaction"` are written for a database that the store does not have.
    #[error(
        "store {store} {}, and these transaction steps could not run:{}\nuse `.sqlite(path)` for `cx.sql`, `.postgres(url)` for `cx.postgres`; where this program links a step that it never runs, call `.without::<step>()`, or `.allow_missing_deps()` for all",
        offered(.offers), foreign(.steps)
    )]
    NoTransactions {
        /// Kind and place of the store, as [`Store::describe`](crate::store::Store::describe) gives them.
        store: String,
        /// How bodies reach the store's database; `None` where it runs no transaction steps.
        offers: Option<&'static str>,
        /// The steps.
        steps: Vec<ForeignStep>,
    },
    /// No store was given.
    #[error("no store was given: call `.sqlite(path)`, `.postgres(url)`, `.memory()` or `.store(store)`")]
    NoStore,
    /// The engine was started outside of a tokio runtime.
    #[error(
        "there is no tokio runtime for the engine's runs: start it inside of one, as in a function with `#[tokio::main]`, which must live as long as the engine"
    )]
    NoRuntime,
    /// The engine has no clock and no entropy.
    #[error(
        "no clock and entropy are linked into this program: call `.environment(..)`, or depend on a crate that has them, such as `aether`"
    )]
    NoEnvironment,
    /// What the program does to its own tables at the start (`.prepare(..)`) has failed. No run was resumed. The text does
    /// not say why: the source does.
    #[error("store {store} could not be prepared, so that nothing was started")]
    Prepare {
        /// Kind and place of the store, as [`Store::describe`](crate::store::Store::describe) gives them.
        store: String,
        /// What went wrong.
        #[source]
        error: PrepareError,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a store could not be prepared; mostly an error of the program's own. Two are equal if they are clones.
#[derive(Clone)]
pub struct PrepareError(Arc<dyn Error + Send + Sync>);

impl PrepareError {
    /// Takes an error, or a text.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }

    /// The error as the program gave it, for `downcast_ref`.
    ///
    /// ```
    /// use aether_core::engine::PrepareError;
    /// let error = PrepareError::new(std::fmt::Error);
    /// assert!(error.get().is::<std::fmt::Error>());
    /// ```
    pub fn get(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl PartialEq for PrepareError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for PrepareError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// A transaction step that the store cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignStep {
    /// Module path and name of the step.
    pub step: &'static str,
    /// Where it is declared, `file:line`.
    pub place: String,
    /// How its body reaches a database, where its code says it.
    pub uses: Option<&'static str>,
}

fn offered(offers: &Option<&'static str>) -> String {
    match offers {
        Some(offers) => format!("has `{offers}`"),
        None => "runs no transactions".to_owned(),
    }
}

fn foreign(steps: &[ForeignStep]) -> String {
    let line = |step: &ForeignStep| {
        let uses = step.uses.map(|uses| format!(" uses `{uses}`")).unwrap_or_default();
        format!("\n- `{}` ({}){uses}", step.step, step.place)
    };
    steps.iter().map(line).collect()
}

/// One line for each run that does not fit.
fn told(runs: &[RunCheck]) -> String {
    runs.iter().map(|run| format!("\n- `{}`: {}", run.run, run.why.as_deref().unwrap_or_default())).collect()
}
