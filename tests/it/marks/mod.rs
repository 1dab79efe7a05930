//! Marks: `cx.version` in code that is changed while runs are open.

mod back;
mod builds;
mod deploys;
mod retirement;
mod rounds;
