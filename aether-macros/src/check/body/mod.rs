//! The rules of bodies: what is recorded nowhere, and one effect at a time.

pub(crate) mod branches;
pub(crate) mod captures;
pub(crate) mod context;
mod handed;
pub(crate) mod iteration;
mod keys;
mod known_types;
pub(crate) mod linear;
pub(crate) mod lint;
pub(crate) mod locals;
pub(crate) mod marks;
pub(crate) mod mentions;
pub(crate) mod names;
pub(crate) mod needs;
mod optional;
pub(crate) mod places;
pub(crate) mod rules;
pub(crate) mod visit;
pub(crate) mod wrapped;
