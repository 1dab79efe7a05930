//! Request bodies that are sent without being held in memory: a download, or a file.
//!
//! Promise: the length is known before anything is sent, and what was sent is recorded by length and SHA-256; a body that
//! ends early breaks the request and is never passed off as the whole.

use std::fs::File;
use std::io::{self, Read as _, Take};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aether_core::payload::hex;
use aether_core::step::StepCx;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::{BoxStream, unfold};
use http_body::{Frame, SizeHint};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};

use super::download::Download;
use crate::plain_file;

/// Size of the pieces in which a file is read, in bytes.
const PIECE: usize = 256 << 10;

/// What a request sends from somewhere else than memory: a [`Download`], or a file by its path. See
/// [`HttpRequest::body_from`](super::request::HttpRequest::body_from).
#[derive(Clone, Debug)]
pub struct Upload {
    source: Source,
    /// What the newest sending sent as a whole.
    sent: Arc<Mutex<Option<Sent>>>,
}

#[derive(Clone, Debug)]
enum Source {
    Download(Box<Download>),
    File(PathBuf),
}

#[derive(Clone, Debug)]
struct Sent {
    bytes: u64,
    sha256: String,
}

/// An upload as it stands in the journal.
#[derive(Debug, Serialize)]
pub(crate) struct RecordedUpload {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl Upload {
    fn new(source: Source) -> Self {
        Self { source, sent: Arc::default() }
    }

    /// The same for a request of its own: what another one sends is not known here.
    pub(crate) fn for_one_request(self) -> Self {
        Self::new(self.source)
    }

    /// What a request is known by that sends it: nothing that only sending it tells.
    pub(crate) fn name(&self) -> RecordedUpload {
        match &self.source {
            Source::Download(of) => {
                RecordedUpload { file: None, bytes: Some(of.bytes), sha256: Some(of.sha256.clone()) }
            }
            Source::File(path) => {
                RecordedUpload { file: Some(path.display().to_string()), bytes: None, sha256: None }
            }
        }
    }

    /// What is noted of it with an exchange: of a file also digest and length, once it was sent.
    pub(crate) fn record(&self) -> RecordedUpload {
        let name = self.name();
        match lock(&self.sent).clone() {
            Some(Sent { bytes, sha256 }) if name.file.is_some() => {
                RecordedUpload { bytes: Some(bytes), sha256: Some(sha256), ..name }
            }
            _ => name,
        }
    }

    /// The recorded arguments of a request without what a former build recorded of a file that it had sent before.
    pub(crate) fn forget_sent(arguments: &mut serde_json::Value) -> bool {
        let upload = arguments.get_mut("body_from").and_then(serde_json::Value::as_object_mut);
        let Some(upload) = upload.filter(|upload| upload.contains_key("file")) else { return false };
        let all = upload.len();
        upload.retain(|name, _| name == "file");
        upload.len() < all
    }

    /// Begins to read it.
    ///
    /// # Errors
    /// Why it cannot be read; nothing was sent.
    pub(crate) async fn open(&self, cx: &StepCx) -> Result<Sending, String> {
        *lock(&self.sent) = None;
        let (bytes, pieces) = match &self.source {
            Source::Download(download) => (download.bytes, pieces_of(cx, download).await?),
            Source::File(path) => {
                let unreadable =
                    |error: &dyn std::fmt::Display| format!("file `{}`: {error}", path.display());
                let opened = blocking({
                    let path = path.clone();
                    move || plain_file::open(&path).and_then(|file| Ok((file.metadata()?, file)))
                });
                let (metadata, file) = opened.await.map_err(|error| unreadable(&error))?;
                (metadata.len(), read(file.take(metadata.len())))
            }
        };
        if bytes == 0 {
            *lock(&self.sent) = Some(Sent { bytes, sha256: hex(&Sha256::digest([])) });
        }
        let moved = Moved::default();
        let body = Streamed {
            pieces: Mutex::new(pieces),
            left: bytes,
            bytes,
            hash: Sha256::new(),
            sent: Arc::clone(&self.sent),
            moved: moved.clone(),
        };
        Ok(Sending { body: reqwest::Body::wrap(body), bytes, moved })
    }
}

impl From<Download> for Upload {
    fn from(download: Download) -> Self {
        Self::new(Source::Download(Box::new(download)))
    }
}

impl From<&Download> for Upload {
    fn from(download: &Download) -> Self {
        download.clone().into()
    }
}

impl From<PathBuf> for Upload {
    fn from(path: PathBuf) -> Self {
        Self::new(Source::File(path))
    }
}

impl From<&Path> for Upload {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

/// An upload that is about to be sent.
pub(crate) struct Sending {
    pub(crate) body: reqwest::Body,
    pub(crate) bytes: u64,
    pub(crate) moved: Moved,
}

/// When something was sent last.
#[derive(Clone, Debug)]
pub(crate) struct Moved(Arc<Mutex<Instant>>);

impl Default for Moved {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Moved {
    fn now(&self) {
        *lock(&self.0) = Instant::now();
    }

    /// What `sending` gives; `None` when nothing was sent for `idle` and it has not ended.
    pub(crate) async fn within<T>(&self, idle: Duration, sending: impl Future<Output = T>) -> Option<T> {
        let mut sending = std::pin::pin!(sending);
        loop {
            let last = *lock(&self.0);
            let Some(due) = last.checked_add(idle) else { return Some(sending.await) };
            match select(sending.as_mut(), std::pin::pin!(sleep_until(due))).await {
                Either::Left((ended, _)) => return Some(ended),
                Either::Right(_) if *lock(&self.0) == last => return None,
                Either::Right(_) => {}
            }
        }
    }
}

type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// The pieces of a download. The first one is read at once: where a run was purged, nothing is sent.
async fn pieces_of(cx: &StepCx, download: &Download) -> Result<Pieces, String> {
    let mut reader = download.read(cx);
    let first = reader.next().await.map_err(|error| error.to_string())?;
    let rest = unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        match reader.next().await {
            Ok(piece) => piece.map(|piece| (Ok(Bytes::from(piece)), Some(reader))),
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    });
    Ok(futures_util::stream::iter(first.map(|piece| Ok(Bytes::from(piece)))).chain(rest).boxed())
}

/// The pieces of a file.
fn read(file: Take<File>) -> Pieces {
    unfold(Some(file), |file| async {
        let mut file = file?;
        let read = blocking(move || {
            let mut piece = vec![0; PIECE];
            let count = loop {
                match file.read(&mut piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            piece.truncate(count);
            Ok((piece, file))
        });
        match read.await {
            Ok((piece, _)) if piece.is_empty() => None,
            Ok((piece, file)) => Some((Ok(Bytes::from(piece)), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// A body in pieces, of a length that is known.
struct Streamed {
    /// Locked by nobody: what is in a lock can be shared.
    pieces: Mutex<Pieces>,
    left: u64,
    bytes: u64,
    hash: Sha256,
    sent: Arc<Mutex<Option<Sent>>>,
    moved: Moved,
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let body = self.get_mut();
        let pieces = body.pieces.get_mut().unwrap_or_else(PoisonError::into_inner);
        let piece = match ready!(pieces.poll_next_unpin(cx)) {
            Some(Ok(piece)) if piece.len() as u64 <= body.left => piece,
            Some(Ok(_)) => {
                return Poll::Ready(Some(Err(io::Error::other("it is longer than it was said to be"))));
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None if body.left > 0 => {
                return Poll::Ready(Some(Err(io::Error::other("it became shorter while it was sent"))));
            }
            None => return Poll::Ready(None),
        };
        body.moved.now();
        body.left -= piece.len() as u64;
        body.hash.update(&piece);
        if body.left == 0 {
            let sha256 = hex(&body.hash.clone().finalize());
            *lock(&body.sent) = Some(Sent { bytes: body.bytes, sha256 });
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
