//! Downloads: answers whose bodies are kept in the store piece by piece, and are never in memory as a whole.
//!
//! Promise: what is recorded is small, and names each piece by its SHA-256; a body that was cut off leaves no download; a
//! piece that is missing or was altered is an error and never other bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use aether_core::failure::{ErrorHints, KnownError};
use aether_core::id::RunId;
use aether_core::outcome::{Classify, FailureClass};
use aether_core::payload::hex;
use aether_core::step::{NoContents, StepCx};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::{Exchange, HttpError};
use super::response::{Body, HttpResponse, about_key, status_error};
use crate::retry_after;

/// How much of an error's body is recorded with it, in bytes.
pub(crate) const START: usize = 4 << 10;

/// The recorded answer to a request that was sent with [`download`](super::request::HttpRequest::download). Its body is in
/// the store, as long as the run is that made the request; steps read it with [`Download::read`]. It can be an argument,
/// and a result.
///
/// ```
/// # use aether_core::failure::Result;
/// # use aether_core::step::StepCx;
/// # use aether_effects::http::{Download, StepHttp};
/// # use std::io::Write as _;
/// async fn save(cx: &mut StepCx, archive: Download) -> Result<u64> {
///     let mut file = std::fs::File::create("archive.tar")?;
///     let mut body = archive.read(cx);
///     while let Some(piece) = body.next().await? {
///         file.write_all(&piece)?;
///     }
///     Ok(archive.bytes)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Recorded", into = "Recorded")]
pub struct Download {
    /// Method of the request.
    pub method: String,
    /// URL of the request, with its secrets masked.
    pub url: String,
    /// The URL that answered, where redirects led to another one; with its secrets masked.
    pub redirected_to: Option<String>,
    /// Status code of the answer.
    pub status: u16,
    /// Allow-listed headers, names in lower case; `location` with its secrets masked.
    pub headers: BTreeMap<String, String>,
    /// Length of the body.
    pub bytes: u64,
    /// SHA-256 of the body, 64 hexadecimal digits.
    pub sha256: String,
    /// How the body of an error begins.
    start: String,
    content: Content,
}

/// Where the body is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// In the store.
    Kept { keeper: RunId, contents: Vec<String> },
    /// Here: an answer that a cassette or a script of a test gave.
    Whole(Body),
}

/// A download as it stands in the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Recorded {
    Kept(Manifest),
    Whole(HttpResponse),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Manifest {
    method: String,
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redirected_to: Option<String>,
    status: u16,
    headers: BTreeMap<String, String>,
    bytes: u64,
    sha256: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    start: String,
    /// The run that keeps the pieces.
    keeper: RunId,
    /// The pieces by their SHA-256, in order. A fork copies what a list of this name names.
    contents: Vec<String>,
}

impl From<Recorded> for Download {
    fn from(recorded: Recorded) -> Self {
        match recorded {
            Recorded::Whole(response) => response.into(),
            Recorded::Kept(manifest) => {
                let Manifest { method, url, redirected_to, status, headers, bytes, sha256, start, .. } =
                    manifest;
                let content = Content::Kept { keeper: manifest.keeper, contents: manifest.contents };
                Self { method, url, redirected_to, status, headers, bytes, sha256, start, content }
            }
        }
    }
}

impl From<HttpResponse> for Download {
    fn from(response: HttpResponse) -> Self {
        let HttpResponse { method, url, redirected_to, status, headers, body } = response;
        let whole = body.bytes();
        let start = if status < 400 { String::new() } else { start_of(&whole) };
        let (bytes, sha256) = (whole.len() as u64, hex(&Sha256::digest(&whole)));
        let content = Content::Whole(body);
        Self { method, url, redirected_to, status, headers, bytes, sha256, start, content }
    }
}

impl From<Download> for Recorded {
    fn from(download: Download) -> Self {
        let Download { method, url, redirected_to, status, headers, bytes, sha256, start, content } =
            download;
        match content {
            Content::Whole(body) => {
                Self::Whole(HttpResponse { method, url, redirected_to, status, headers, body })
            }
            Content::Kept { keeper, contents } => Self::Kept(Manifest {
                method,
                url,
                redirected_to,
                status,
                headers,
                bytes,
                sha256,
                start,
                keeper,
                contents,
            }),
        }
    }
}

impl Download {
    /// Reads the body in pieces of at most 1 MiB, one at a time in memory. In the body of a step.
    pub fn read(&self, cx: &StepCx) -> DownloadReader {
        DownloadReader { cx: cx.clone(), download: self.clone(), next: 0, read: 0 }
    }

    /// Whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// A recorded header; `name` in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// How long the server asks to wait, if it said so; see [`HttpResponse::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after::wait(self.header("retry-after")?, self.header("date"))
    }

    /// The download itself, if its status is below 400.
    ///
    /// # Errors
    /// [`HttpError::Status`] otherwise, as of [`HttpResponse::error_for_status`].
    pub fn error_for_status(self) -> Result<Self, HttpError> {
        let exchange = self.exchange();
        match status_error(exchange, self.status, self.retry_after(), &self.start) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// See [`HttpResponse::unless_about_key`].
    pub(crate) fn unless_about_key(self) -> Result<Self, HttpError> {
        let exchange = self.exchange();
        match about_key(exchange, self.status, self.retry_after(), &self.start) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    fn exchange(&self) -> Exchange {
        Exchange { method: self.method.clone(), url: self.url.clone() }
    }

    /// What was kept of an answer by `keeper`.
    pub(crate) fn kept(head: Head, start: &[u8], body: KeptBody, keeper: RunId) -> Self {
        let Head { exchange: Exchange { method, url }, redirected_to, status, headers } = head;
        let KeptBody { bytes, sha256, contents } = body;
        let content = Content::Kept { keeper, contents };
        Self { method, url, redirected_to, status, headers, bytes, sha256, start: start_of(start), content }
    }
}

/// The head of an answer, as it is recorded.
pub(crate) struct Head {
    pub(crate) exchange: Exchange,
    pub(crate) redirected_to: Option<String>,
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
}

/// A body in the store.
pub(crate) struct KeptBody {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Its pieces by their SHA-256, in order.
    pub(crate) contents: Vec<String>,
}

fn start_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..START).unwrap_or(bytes)).into_owned()
}

/// Reads the body of a [`Download`].
pub struct DownloadReader {
    cx: StepCx,
    download: Download,
    /// Number of the next piece.
    next: usize,
    /// Bytes that were read.
    read: u64,
}

impl DownloadReader {
    /// The next piece of the body, checked against its digest; `None` at the end.
    ///
    /// # Errors
    /// [`DownloadError`] where the piece is missing or was altered.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, DownloadError> {
        let number = self.next;
        self.next += 1;
        let piece = match &self.download.content {
            Content::Whole(body) => (number == 0).then(|| body.bytes()).filter(|bytes| !bytes.is_empty()),
            Content::Kept { keeper, contents } => match contents.get(number) {
                Some(sha256) => Some(self.piece(keeper, number, sha256).await?),
                None => None,
            },
        };
        self.read += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if piece.is_none() && self.read != self.download.bytes {
            return Err(DownloadError::Altered { url: self.download.url.clone(), piece: number });
        }
        Ok(piece)
    }

    async fn piece(&self, keeper: &RunId, number: usize, sha256: &str) -> Result<Vec<u8>, DownloadError> {
        let url = || self.download.url.clone();
        match self.cx.content(keeper, sha256).await? {
            Some(bytes) if hex(&Sha256::digest(&bytes)) == sha256 => Ok(bytes),
            Some(_) => Err(DownloadError::Altered { url: url(), piece: number }),
            None => Err(DownloadError::Missing { url: url(), piece: number, keeper: keeper.clone() }),
        }
    }
}

impl fmt::Debug for DownloadReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DownloadReader").field("download", &self.download).field("next", &self.next).finish()
    }
}

/// Why a download cannot be read. It is gone for good: download it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// A piece is not in the store.
    #[error(
        "the download of {url}: piece {piece} is not in the store: run `{keeper}`, which downloaded it, may have been purged"
    )]
    Missing {
        /// URL of the download, with its secrets masked.
        url: String,
        /// Number of the piece, from 0.
        piece: usize,
        /// The run that made the request.
        keeper: RunId,
    },
    /// A piece is not what was downloaded.
    #[error("the download of {url}: piece {piece} was altered in the store")]
    Altered {
        /// URL of the download, with its secrets masked.
        url: String,
        /// Number of the piece, from 0.
        piece: usize,
    },
    /// The step may not read it.
    #[error(transparent)]
    NotHere(#[from] NoContents),
}

impl Classify for DownloadError {
    fn class(&self) -> FailureClass {
        FailureClass::Permanent
    }
}

inventory::submit! {
    KnownError(|error| error.downcast_ref::<DownloadError>().map(ErrorHints::of))
}
