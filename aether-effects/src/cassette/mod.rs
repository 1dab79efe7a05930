//! Cassettes: HTTP and model traffic, recorded once against real endpoints and played back without them.
//!
//! Promise: a played-back call reaches no network; one that is not on the cassette is refused and told apart from those
//! that are; credentials are not on it; the file is always whole, and a damaged one is an error that leaves it alone.
//!
//! A cassette lies below `cx.http()` and `cx.llm(..)`: workflows, journals and retries are the same with and without.
//!
//! ```
//! use aether_effects::cassette::{Cassette, Mode};
//! use aether_effects::http::HttpClient;
//! # fn open(folder: &std::path::Path, model: aether_effects::llm::OpenAiClient) -> Result<(), Box<dyn std::error::Error>> {
//! let cassette = Cassette::open(folder.join("weather.json"), Mode::Auto)?;
//! let http = HttpClient::builder().cassette(&cassette).build()?; // for `.provide(http)`
//! let model = cassette.model(model); // for `.model(model)`
//! # Ok(())
//! # }
//! ```

mod file;
mod nearest;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aether_core::payload::{Digest, Payload};
use aether_core::recording::Masking;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::llm::{ChatRequest, ChatResponse, ModelClient, ModelError};

/// What a cassette does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every call goes to the real endpoint and is recorded; what was on the cassette is replaced by the first of them.
    Record,
    /// No call goes anywhere: each is answered from the cassette or refused.
    Replay,
    /// A call that is on the cassette is answered from it; any other goes to the real endpoint and is recorded.
    Auto,
}

impl Mode {
    /// What the environment variable `AETHER_CASSETTE` says: `record`, `replay` or `auto`; `Replay` where it is not set.
    ///
    /// # Errors
    /// [`CassetteError::Mode`] when it says anything else.
    pub fn from_env() -> Result<Self, CassetteError> {
        match std::env::var("AETHER_CASSETTE").unwrap_or_default().as_str() {
            "record" => Ok(Self::Record),
            "replay" | "" => Ok(Self::Replay),
            "auto" => Ok(Self::Auto),
            other => Err(CassetteError::Mode(other.to_owned())),
        }
    }
}

/// Why a cassette cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// There is no such file, or it cannot be read or written.
    #[error("cassette {path}: {reason}")]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system said, and what to do.
        reason: String,
    },
    /// The file is no cassette, or not a whole one. It was left as it is.
    #[error("cassette {path} is damaged: {reason}; restore it, or delete it and record again")]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// A newer build wrote it.
    #[error("cassette {path} has version {found}, this build reads up to {supported}: update the program")]
    NewerVersion {
        /// Its path.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Newest version this build reads.
        supported: u32,
    },
    /// The environment variable names no mode.
    #[error("AETHER_CASSETTE is {0:?}, which is none of `record`, `replay` and `auto`")]
    Mode(String),
}

/// What kind of traffic an interaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// One HTTP exchange.
    Http,
    /// One question to a model.
    Model,
}

/// One call and its answer, both masked.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Interaction {
    kind: Kind,
    request: Payload,
    response: Payload,
}

#[derive(Debug, Default)]
struct Tape {
    interactions: Vec<Interaction>,
    /// Digests of the requests.
    keys: Vec<Option<Digest>>,
    /// Which ones were given as an answer, or recorded just now.
    used: Vec<bool>,
    /// What was recorded and is not in the file.
    unwritten: Vec<Interaction>,
    /// Whether the file was written.
    written: bool,
}

impl Tape {
    fn push(&mut self, interaction: Interaction, used: bool) {
        self.keys.push(Digest::of(&interaction.request).ok());
        self.used.push(used);
        self.interactions.push(interaction);
    }
}

/// Recorded traffic in a file. Clones share it, and may be used from many tasks at once; several that record to one
/// file, in other processes too, add to what is there.
///
/// Calls are matched by method, URL and body, and by the whole request to a model; JSON in any order of its members.
/// Equal calls get the recorded answers in their order, each once. Headers are not looked at. What is recorded are
/// answers, whatever their status; a call that got none (no connection, a timeout) is not.
#[derive(Clone, Debug)]
pub struct Cassette(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    mode: Mode,
    masking: Masking,
    tape: Mutex<Tape>,
}

impl Cassette {
    /// Opens the cassette at `path`, masking what [`Masking::standard`] finds. Recording makes the file when the first
    /// answer comes.
    ///
    /// # Errors
    /// [`CassetteError`]; to replay, the file must exist, and whatever the mode, a file that is no cassette is an error.
    pub fn open(path: impl Into<PathBuf>, mode: Mode) -> Result<Self, CassetteError> {
        Self::open_masked(path, mode, Masking::standard())
    }

    /// As [`Cassette::open`], masking what `masking` finds: in requests, where both sides of a comparison are masked,
    /// and in answers, so that a played-back answer holds the mask in place of the secret.
    ///
    /// # Errors
    /// As [`Cassette::open`].
    pub fn open_masked(
        path: impl Into<PathBuf>,
        mode: Mode,
        masking: Masking,
    ) -> Result<Self, CassetteError> {
        let path = path.into();
        let mut tape = Tape::default();
        let recorded = file::read(&path, mode)?;
        if mode != Mode::Record {
            recorded.into_iter().for_each(|interaction| tape.push(interaction, false));
        }
        Ok(Self(Arc::new(Inner { path, mode, masking, tape: Mutex::new(tape) })))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Number of interactions on the cassette.
    pub fn len(&self) -> usize {
        self.tape().interactions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of interactions that were neither played back nor recorded by this cassette: 0 at the end of a test that
    /// made all the calls it once made.
    pub fn unused(&self) -> usize {
        self.tape().used.iter().filter(|used| !**used).count()
    }

    /// `client` with this cassette in front of it.
    pub fn model<C: ModelClient>(&self, client: C) -> CassetteModel<C> {
        CassetteModel { cassette: self.clone(), client }
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.0.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn masked(&self, payload: &Payload) -> Payload {
        // Masked JSON is JSON; were it not, nothing of it may be kept.
        Payload::from_text(self.0.masking.redact(payload.as_str())).unwrap_or_else(|_| Payload::null())
    }

    /// The recorded answer to a call; `None` lets it through. The error says why it is refused.
    pub(crate) fn answer(&self, kind: Kind, request: &Payload) -> Result<Option<Payload>, String> {
        if self.0.mode == Mode::Record {
            return Ok(None);
        }
        let request = self.masked(request);
        let key = Digest::of(&request).ok();
        let mut tape = self.tape();
        let same = |tape: &Tape, at: &usize| {
            key.is_some() && tape.interactions[*at].kind == kind && tape.keys[*at] == key
        };
        let all = 0..tape.interactions.len();
        if let Some(at) = all.clone().find(|at| !tape.used[*at] && same(&tape, at)) {
            tape.used[at] = true;
            return Ok(Some(tape.interactions[at].response.clone()));
        }
        if self.0.mode == Mode::Auto {
            return Ok(None);
        }
        let given = all.filter(|at| same(&tape, at)).count();
        let recorded =
            tape.interactions.iter().filter(|known| known.kind == kind).map(|known| &known.request);
        Err(nearest::refusal(&self.0.path, &request, given, recorded))
    }

    /// Records a call and its answer. The caller has its answer whether or not it can be written: the next one that is
    /// recorded brings it along.
    pub(crate) fn keep(&self, kind: Kind, request: &Payload, response: &Payload) {
        let interaction =
            Interaction { kind, request: self.masked(request), response: self.masked(response) };
        let mut tape = self.tape();
        tape.push(interaction.clone(), true);
        tape.unwritten.push(interaction);
        let anew = self.0.mode == Mode::Record && !tape.written;
        match file::add(&self.0.path, &tape.unwritten, anew) {
            Ok(()) => {
                tape.unwritten.clear();
                tape.written = true;
            }
            Err(error) => tracing::error!(%error, "an answer cannot be recorded"),
        }
    }
}

/// A client for models behind a cassette; see [`Cassette::model`].
#[derive(Clone, Debug)]
pub struct CassetteModel<C> {
    cassette: Cassette,
    client: C,
}

impl<C: ModelClient> CassetteModel<C> {
    async fn ask(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let unusable = |error: aether_core::payload::PayloadError| ModelError::Setup(error.to_string());
        let asked = Payload::encode(&request).map_err(unusable)?;
        match self.cassette.answer(Kind::Model, &asked) {
            Ok(Some(answer)) => answer.decode().map_err(unusable),
            Ok(None) => {
                let answer = self.client.chat(request).await?;
                self.cassette.keep(Kind::Model, &asked, &Payload::encode(&answer).map_err(unusable)?);
                Ok(answer)
            }
            Err(refusal) => Err(ModelError::NotRecorded { refusal }),
        }
    }
}

impl<C: ModelClient> ModelClient for CassetteModel<C> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        Box::pin(self.ask(request))
    }
}
