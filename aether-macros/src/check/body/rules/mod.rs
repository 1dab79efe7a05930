//! The catalogue of what is recorded nowhere: paths, methods and macros.

pub(crate) mod finding;
pub(crate) mod methods;
pub(crate) mod paths;
#[cfg(test)]
mod tests;
