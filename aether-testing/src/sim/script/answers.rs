//! The script of one step: answers to calls with certain arguments, then answers in order, then one for all other calls;
//! and what its probe is replaced by.
//!
//! Promise: a script is data; every simulation begins at its start.

use std::panic::Location;
use std::sync::Arc;

use aether_core::payload::{Payload, PayloadError};
use aether_core::step::ProbeResult;

use super::behaviour::Behaviour;

/// Answers in order, and then one for every further call.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    pub(crate) first: Vec<Behaviour>,
    pub(crate) then: Option<Behaviour>,
}

impl Answers {
    /// The answer of this number, from 0.
    pub(crate) fn get(&self, turn: usize) -> Option<&Behaviour> {
        self.first.get(turn).or(self.then.as_ref())
    }
}

/// Whether a call has the arguments that an answer is for.
pub(crate) type Fits = Arc<dyn Fn(&Payload) -> Result<bool, PayloadError> + Send + Sync>;

/// Answers to the calls that fit.
#[derive(Clone)]
pub(crate) struct Matcher {
    pub(crate) fits: Fits,
    pub(crate) answers: Answers,
    /// Where in the test it is.
    pub(crate) at: &'static Location<'static>,
}

/// What is planned for one step.
#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) matchers: Vec<Matcher>,
    /// What answers the calls that no matcher fits.
    pub(crate) rest: Answers,
}

/// What a probe is replaced by.
#[derive(Clone)]
pub(crate) enum ProbeStub {
    /// This answers.
    Answer(Arc<dyn Fn(&Payload) -> ProbeResult + Send + Sync>),
    /// The real probe looks.
    Real,
}
