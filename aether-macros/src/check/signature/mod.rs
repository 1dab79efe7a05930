//! The rules of the signature: context, arguments and result.

pub(crate) mod arguments;
pub(crate) mod attributes;
pub(crate) mod context;
pub(crate) mod owned;
pub(crate) mod result;
pub(crate) mod services;
pub(crate) mod shape;
