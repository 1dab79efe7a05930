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
    /// What all of these send to streams first.
    pub(crate) sends: Vec<Sends>,
}

impl Script {
    /// Whether it answers nothing: it only says what is sent to streams.
    pub(crate) fn is_empty(&self) -> bool {
        self.matchers.is_empty() && self.rest.first.is_empty() && self.rest.then.is_none()
    }
}

/// The items that a call sends, by its arguments.
pub(crate) type ItemsOf = Arc<dyn Fn(&Payload) -> Result<Vec<Payload>, PayloadError> + Send + Sync>;

/// What a stub sends to a stream before it answers.
#[derive(Clone)]
pub(crate) struct Sends {
    pub(crate) stream: String,
    pub(crate) items: ItemsOf,
}

/// What a probe is replaced by.
#[derive(Clone)]
pub(crate) enum ProbeStub {
    /// This answers.
    Answer(Arc<dyn Fn(&Payload) -> ProbeResult + Send + Sync>),
    /// The real probe looks.
    Real,
    /// The real probe looks for calls whose real body ran; what a stub did, the simulated world knows.
    OfRealBodies,
}
