//! The cassette itself: what is on it, which calls it answers, and what it records.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aether_core::payload::{Digest, Payload};
use aether_core::recording::Masking;

use super::error::CassetteError;
use super::interaction::{CallKind, Interaction};
use super::mode::Mode;
use super::{file, nearest};

/// What is on a cassette, and what became of it since it was opened.
#[derive(Debug, Default)]
struct Content {
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

impl Content {
    /// Adds an interaction. It may be from a file that was written under other rules of masking.
    fn push(&mut self, interaction: Interaction, used: bool, masking: &Masking) {
        self.keys.push(Digest::of(&masked(masking, &interaction.request)).ok());
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
    content: Mutex<Content>,
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
        let mut content = Content::default();
        let recorded = file::read(&path, mode)?;
        if mode != Mode::Record {
            recorded.into_iter().for_each(|interaction| content.push(interaction, false, &masking));
        }
        Ok(Self(Arc::new(Inner { path, mode, masking, content: Mutex::new(content) })))
    }

    /// Path of the file, as it was given.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Number of interactions on the cassette.
    pub fn len(&self) -> usize {
        self.content().interactions.len()
    }

    /// Whether there is no interaction on the cassette.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of interactions that were neither played back nor recorded by this cassette: 0 at the end of a test that
    /// made all the calls it once made.
    pub fn unused(&self) -> usize {
        self.content().used.iter().filter(|used| !**used).count()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn masked(&self, payload: &Payload) -> Payload {
        masked(&self.0.masking, payload)
    }

    /// The recorded answer to a call; `None` lets it through. The error says why it is refused.
    pub(crate) fn answer(&self, kind: CallKind, request: &Payload) -> Result<Option<Payload>, String> {
        if self.0.mode == Mode::Record {
            return Ok(None);
        }
        let request = self.masked(request);
        let key = Digest::of(&request).ok();
        let mut content = self.content();
        let same = |content: &Content, at: &usize| {
            key.is_some() && content.interactions[*at].kind == kind && content.keys[*at] == key
        };
        let all = 0..content.interactions.len();
        if let Some(at) = all.clone().find(|at| !content.used[*at] && same(&content, at)) {
            content.used[at] = true;
            return Ok(Some(content.interactions[at].response.clone()));
        }
        if self.0.mode == Mode::Auto {
            return Ok(None);
        }
        let given = all.filter(|at| same(&content, at)).count();
        let recorded =
            content.interactions.iter().filter(|known| known.kind == kind).map(|known| &known.request);
        Err(nearest::refusal(&self.0.path, &request, given, recorded))
    }

    /// Records a call and its answer. The caller has its answer whether or not it can be written: the next one that is
    /// recorded brings it along.
    pub(crate) fn keep(&self, kind: CallKind, request: &Payload, response: &Payload) {
        let interaction =
            Interaction { kind, request: self.masked(request), response: self.masked(response) };
        let mut content = self.content();
        content.push(interaction.clone(), true, &self.0.masking);
        content.unwritten.push(interaction);
        let anew = self.0.mode == Mode::Record && !content.written;
        match file::add(&self.0.path, &content.unwritten, anew) {
            Ok(()) => {
                content.unwritten.clear();
                content.written = true;
            }
            Err(error) => tracing::error!(%error, "an answer cannot be recorded"),
        }
    }
}

fn masked(masking: &Masking, payload: &Payload) -> Payload {
    // Masked JSON is JSON; were it not, nothing of it may be kept.
    Payload::from_text(masking.redact(payload.as_str())).unwrap_or_else(|_| Payload::null())
}
