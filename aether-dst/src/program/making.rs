//! Steps that make something, and those that undo them.
//!
//! Promise: what was made has a number of its own in its story, by which the world knows what was undone. Who undoes the same
//! under the same key as before, after that call has returned, gets the same answer, as from any receiver that knows keys.

use std::time::Duration;

use aether_core::failure::{Failure, Result, StepError};
use aether_core::step::StepCx;
use aether_core::workflow::Cx;
use aether_macros::step;

use crate::judge::{self, undone};
use crate::model::HALF_WAY;
use crate::story::Undone;
use crate::world::sleep;

/// Makes something that is undone in this way.
pub(super) async fn made(cx: &mut Cx, number: u32, how: Undone, span: u64) -> Result<u64, StepError> {
    match how {
        Undone::Once | Undone::Never => make(cx, number, how, span, false).await,
        Undone::Again => make_and_repeat(cx, number, how, span).await,
        Undone::Agreed => make_and_agree(cx, number, how, span).await,
        Undone::Reported => make_and_report(cx, number, how, span).await,
    }
}

/// Makes something, or fails half-way.
#[step(effect = "tool", compensate = unmake, crate = "crate::program::aether")]
pub(super) async fn make(cx: &mut StepCx, number: u32, how: Undone, span: u64, fails: bool) -> Result<u64> {
    let _ = how;
    let body = judge::called(cx.run_id().as_str(), cx.idempotency_key().as_str());
    undone::made(cx.run_id(), cx.command_id(), number);
    sleep(span * 1_000).await;
    match fails {
        true => Err(body.fails_as(Failure::compensatable(HALF_WAY))),
        false => Ok(body.returns()),
    }
}

/// Undoes it, which nobody may do twice.
#[step(effect = "tool", crate = "crate::program::aether")]
async fn unmake(
    cx: &mut StepCx,
    number: u32,
    how: Undone,
    span: u64,
    fails: bool,
    made: Option<u64>,
) -> Result<u64> {
    let _ = (fails, made);
    let call = undone::called(cx, number, false);
    sleep(span * 1_000).await;
    match how {
        Undone::Never => Err(call.fails(Failure::permanent)),
        _ => Ok(call.returns()),
    }
}

async fn make_one(cx: &mut StepCx, number: u32, span: u64) -> Result<u64> {
    let body = judge::called(cx.run_id().as_str(), cx.idempotency_key().as_str());
    undone::made(cx.run_id(), cx.command_id(), number);
    sleep(span * 1_000).await;
    Ok(body.returns())
}

/// Undoes it at the second try.
async fn unmake_at_last(cx: &mut StepCx, number: u32, span: u64, repeatable: bool) -> Result<u64> {
    let call = undone::called(cx, number, repeatable);
    sleep(span * 1_000).await;
    match call.is_first() {
        true => Err(call.fails(Failure::retryable)),
        false => Ok(call.returns()),
    }
}

/// Makes something.
#[step(effect = "tool", compensate = unmake_again, crate = "crate::program::aether")]
async fn make_and_repeat(cx: &mut StepCx, number: u32, how: Undone, span: u64) -> Result<u64> {
    let _ = how;
    make_one(cx, number, span).await
}

/// Undoes it, again and again under one key.
#[step(
    effect = "tool",
    idempotent,
    on_unknown = "retry",
    retry(max_retries = 3, delay = "150ms"),
    crate = "crate::program::aether"
)]
async fn unmake_again(
    cx: &mut StepCx,
    number: u32,
    how: Undone,
    span: u64,
    made: Option<u64>,
) -> Result<u64> {
    let _ = (how, made);
    unmake_at_last(cx, number, span, true).await
}

/// Makes something.
#[step(effect = "tool", compensate = unmake_agreed, crate = "crate::program::aether")]
async fn make_and_agree(cx: &mut StepCx, number: u32, how: Undone, span: u64) -> Result<u64> {
    let _ = how;
    make_one(cx, number, span).await
}

/// Undoes it after an approval.
#[step(
    effect = "tool",
    idempotent,
    approval = "required",
    retry(max_retries = 3, delay = "150ms"),
    crate = "crate::program::aether"
)]
async fn unmake_agreed(
    cx: &mut StepCx,
    number: u32,
    how: Undone,
    span: u64,
    made: Option<u64>,
) -> Result<u64> {
    let _ = (how, made);
    unmake_at_last(cx, number, span, false).await
}

/// Makes something.
#[step(effect = "tool", compensate = unmake_reported, crate = "crate::program::aether")]
async fn make_and_report(cx: &mut StepCx, number: u32, how: Undone, span: u64) -> Result<u64> {
    let _ = how;
    make_one(cx, number, span).await
}

/// Undoes it and leaves the outcome to a callback.
#[step(effect = "tool", crate = "crate::program::aether")]
async fn unmake_reported(
    cx: &mut StepCx,
    number: u32,
    how: Undone,
    span: u64,
    made: Option<u64>,
) -> Result<u64> {
    let _ = (how, made);
    let call = undone::called(cx, number, false);
    sleep(span * 1_000).await;
    let callback = cx.callback()?;
    judge::hand_over(callback.token().to_owned(), call.hands_over());
    Err(callback.pending().into())
}

/// Changes the world under a key that may be used again, and leaves the outcome to a callback that must come within so many
/// milliseconds.
#[step(effect = "tool", idempotent, on_unknown = "retry", crate = "crate::program::aether")]
pub(super) async fn handed_over_for(cx: &mut StepCx, span: u64, limit: u64) -> Result<u64> {
    let body = judge::called_again(cx.run_id().as_str(), cx.idempotency_key().as_str());
    let callback = cx.callback()?.expires(Duration::from_millis(limit));
    let _waits_for_nothing_yet = judge::hand_over_early(callback.token(), body.returns());
    sleep(span * 1_000).await;
    Err(callback.pending().into())
}
