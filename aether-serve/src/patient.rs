//! A connection that ends where its client takes nothing.
//!
//! Promise: a write that makes no progress for as long as a client may take is an error, whatever else goes on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes are given up.
#[derive(Debug)]
pub struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Since when a write has made no progress.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// `stream`, of which each write may make no progress for as long as `patience`.
    pub fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, stuck: None }
    }

    /// The result of a write, or that it took too long.
    fn within<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(patience)));
        match stuck.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_given_up_and_one_that_reads_is_not() {
        let (here, there) = tokio::io::duplex(64);
        let mut stuck = Patient::new(here, Duration::from_millis(20));
        let error = stuck.write_all(&[0; 1024]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(there);
        let (here, mut there) = tokio::io::duplex(64);
        let mut heard = Patient::new(here, Duration::from_secs(3600));
        let mut all = Vec::new();
        let (sent, read) = tokio::join!(
            async {
                heard.write_all(&[1; 4096]).await.unwrap();
                heard.shutdown().await
            },
            there.read_to_end(&mut all)
        );
        sent.unwrap();
        assert_eq!(read.unwrap(), 4096);
    }
}
