//! The values that a program provides to step bodies, by type: an HTTP client, a mailer.
//!
//! Promise: a value that is missing is an error that names its type and those that are there.

use crate::sched::HashMap;
use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::sync::Arc;

/// Values by type.
///
/// ```
/// use aether_core::deps::Deps;
/// struct Mailer(&'static str);
/// let mut deps = Deps::default();
/// deps.insert(Mailer("smtp.example"));
/// assert_eq!(deps.get::<Mailer>()?.0, "smtp.example");
/// assert!(deps.get::<String>().is_err());
/// # Ok::<(), aether_core::deps::MissingDep>(())
/// ```
#[derive(Clone, Default)]
pub struct Deps {
    values: HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>,
}

/// A step asked for a value that the program did not provide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no `{wanted}` was provided: call `.provide(..)` with one on the engine's builder, or `.model(..)` for a model (provided are: {provided})"
)]
pub struct MissingDep {
    /// Name of the type that was asked for.
    pub wanted: &'static str,
    /// Names of the types that were provided.
    pub provided: String,
}

/// The type of a value that a step or workflow takes from its program, as its definition declares it.
#[derive(Clone, Copy)]
pub struct Need {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl Need {
    /// A value of type `T` that the program provides.
    pub const fn provided<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>, name: type_name::<T> }
    }

    /// Name of the type.
    pub fn type_name(&self) -> &'static str {
        (self.name)()
    }
}

impl fmt::Debug for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Need({})", self.type_name())
    }
}

/// Says that engines of this program start though values are missing; see [`allow_missing_deps`](crate::allow_missing_deps).
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct MissingDepsAllowed(pub &'static str);

inventory::collect!(MissingDepsAllowed);

impl Deps {
    /// Adds `value`; a second value of one type replaces the first.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.values.insert(TypeId::of::<T>(), (type_name::<T>(), Arc::new(value)));
    }

    /// The value of type `T`.
    ///
    /// # Errors
    /// [`MissingDep`] when there is none.
    pub fn get<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, MissingDep> {
        self.values
            .get(&TypeId::of::<T>())
            .and_then(|(_, value)| Arc::clone(value).downcast::<T>().ok())
            .ok_or_else(|| MissingDep { wanted: type_name::<T>(), provided: self.names() })
    }

    /// Whether there is a value of the type that `need` names.
    pub fn has(&self, need: &Need) -> bool {
        self.values.contains_key(&(need.id)())
    }

    pub(crate) fn names(&self) -> String {
        let mut names: Vec<_> = self.values.values().map(|(name, _)| *name).collect();
        names.sort_unstable();
        if names.is_empty() { "nothing".into() } else { names.join(", ") }
    }
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deps({})", self.names())
    }
}
