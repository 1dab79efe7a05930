//! What goes to streams piece by piece: the items that stubs send, and the time between pieces.
//!
//! Promise: the first piece is written by itself, so that a process can die behind it; and no real time passes.

use std::time::Duration;

use aether_core::payload::Payload;
use aether_core::step::{BodyResult, StepCx};
use futures_util::future::BoxFuture;

use crate::sim::script::answers::Sends;

/// How often everything else that is ready has its turn between two pieces: the writer of streams needs two to write.
const TURNS: usize = 4;

/// Waits before the next piece: in virtual time, or until everything else that is ready had its turns.
pub(super) async fn between_pieces(pause: Duration) {
    if !pause.is_zero() {
        return tokio::time::sleep(pause).await;
    }
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

/// A body that sends these items to streams, and then does what `answer` does.
pub(super) fn sending(
    sends: Vec<Sends>,
    cx: StepCx,
    args: Payload,
    answer: BoxFuture<'static, BodyResult>,
) -> BoxFuture<'static, BodyResult> {
    Box::pin(async move {
        for Sends { stream, items } in sends {
            let sender = cx.stream(&stream);
            for item in items(&args)? {
                sender.send(&item);
                between_pieces(Duration::ZERO).await;
            }
        }
        answer.await
    })
}
