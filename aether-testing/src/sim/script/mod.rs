//! What a test plans, as data: answers of bodies, probes, servers and models, a recording, and what people do.
//!
//! Promise: a plan holds no state of a simulation, so that each one begins at its start. It imports only `report`.

pub(crate) mod answers;
pub(crate) mod behaviour;
pub(crate) mod children;
pub(crate) mod conversation;
pub(crate) mod encode;
pub(crate) mod http;
pub(crate) mod model;
pub(crate) mod people;
pub(crate) mod recorded;
pub(crate) mod scripts;
