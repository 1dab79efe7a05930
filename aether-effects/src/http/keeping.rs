//! The body of an answer on its way to the store, a piece at a time.
//!
//! Promise: a piece is durable before the next one is read from the network, so no more than one is in memory.

use std::mem;

use aether_core::payload::hex;
use aether_core::step::{NoContents, StepCx};
use sha2::{Digest as _, Sha256};

use super::download::{Download, Head, KeptBody, START};
use super::error::HttpError;
use super::exchange::Arriving;

/// Size of the pieces in which a body is kept, in bytes; the last one is smaller.
const PIECE: usize = 1 << 20;

/// Keeps the body of an answer in the store while it comes.
pub(crate) async fn keep(cx: &StepCx, mut arriving: Arriving) -> Result<Download, HttpError> {
    arriving.check_length()?;
    let mut keeping = Keeping { cx, piece: Vec::new(), contents: Vec::new(), hash: Sha256::new(), bytes: 0 };
    let mut start = Vec::new();
    while let Some(came) = arriving.next().await? {
        if arriving.status >= 400 && start.len() < START {
            start.extend(came.iter().take(START - start.len()));
        }
        keeping.take(&came).await.map_err(|error| arriving.invalid(&error))?;
    }
    keeping.end_piece().await.map_err(|error| arriving.invalid(&error))?;
    let Keeping { contents, hash, bytes, .. } = keeping;
    let body = KeptBody { bytes, sha256: hex(&hash.finalize()), contents };
    let Arriving { exchange, redirected_to, status, headers, .. } = arriving;
    let head = Head { exchange, redirected_to, status, headers };
    Ok(Download::kept(head, &start, body, cx.run_id().clone()))
}

/// A body that is being kept.
struct Keeping<'a> {
    cx: &'a StepCx,
    piece: Vec<u8>,
    contents: Vec<String>,
    hash: Sha256,
    bytes: u64,
}

impl Keeping<'_> {
    async fn take(&mut self, mut came: &[u8]) -> Result<(), NoContents> {
        self.hash.update(came);
        self.bytes += came.len() as u64;
        while !came.is_empty() {
            let (now, later) = came.split_at(came.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            came = later;
            if self.piece.len() == PIECE {
                self.end_piece().await?;
            }
        }
        Ok(())
    }

    async fn end_piece(&mut self) -> Result<(), NoContents> {
        if !self.piece.is_empty() {
            let piece = mem::take(&mut self.piece);
            self.contents.push(self.cx.keep_content(piece).await?);
        }
        Ok(())
    }
}
