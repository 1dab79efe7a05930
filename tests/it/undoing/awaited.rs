//! Undoing calls whose outcome somebody outside reports, and that are cut off while it is awaited.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::people::{DecideError, Waiting};
use aether::prelude::*;
use aether::store::{Sent, Store};
use aether::view::Status;

use super::{ended, recorded};
use crate::seeds::kit::{Calls, Journal, Make, Place, builder, in_time, run_id, stores};

/// The token that the newest undoing call gave away.
#[derive(Clone, Debug, Default)]
struct Token(Arc<Mutex<String>>);

impl Token {
    fn newest(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

fn passed_on(cx: &mut StepCx) -> Result<()> {
    Calls::note(cx)?;
    let callback = cx.callback()?;
    callback.token().clone_into(&mut cx.dep::<Token>()?.0.lock().unwrap());
    Err(callback.pending().into())
}

/// Charge a fee.
#[step(effect = "tool", compensate = refund_fee)]
async fn charge_fee(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Have it paid back; in doubt where nobody knows.
#[step(effect = "tool")]
async fn refund_fee(cx: &mut StepCx, cents: u32, charged: Option<u32>) -> Result<()> {
    let _ = (cents, charged);
    passed_on(cx)
}

/// Charge a toll.
#[step(effect = "tool", compensate = refund_toll)]
async fn charge_toll(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Have it paid back; sent again where nobody knows.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn refund_toll(cx: &mut StepCx, cents: u32, charged: Option<u32>) -> Result<()> {
    let _ = (cents, charged);
    passed_on(cx)
}

/// Charge, and lose a race while that is undone; then it is undone by the code, behind another generation where `how` says
/// so, or by the end of the run.
#[workflow]
async fn undo_elsewhere(cx: &mut Cx, what: String, how: String, round: u32) -> Result<usize> {
    if round == 0 {
        match what.as_str() {
            "fee" => drop(charge_fee(cx, 7).await?),
            _ => drop(charge_toll(cx, 7).await?),
        }
        if how == "cancel" {
            return Ok(cx.compensate().await.len());
        }
        cx.race((
            async |cx: &mut Cx| cx.compensate().await.len(),
            async |cx: &mut Cx| {
                let _word: () = cx.signal("lose").await.unwrap_or_default();
                0
            },
        ))
        .await;
        if how == "renew" {
            return cx.continue_as_new::<undo_elsewhere>((what, how, 1)).await;
        }
    }
    let _word: () = cx.signal("undo").await?;
    Ok(cx.compensate().await.len())
}

async fn engine(store: &Arc<dyn Store>, calls: &Calls, token: &Token) -> Engine {
    let grace = Duration::from_millis(1);
    builder(store, calls).provide(token.clone()).eviction_grace(grace).start().await.unwrap()
}

/// When the outcome is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Report {
    /// Before anybody has gone on with the call.
    Between,
    /// Once it is awaited again.
    Later,
    /// Then, and in another process.
    Elsewhere,
}

/// Waits until the run is said to wait for the callback.
async fn awaited(engine: &Engine) {
    in_time(async {
        loop {
            let waits = engine.pending(&run_id("elsewhere")).await.unwrap();
            if waits.iter().any(|wait| wait.waiting == Waiting::Callback) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Waits until the journal is that of another generation, in which the workflow waits.
async fn renewed(place: &Place) {
    in_time(async {
        loop {
            let kinds = Journal::read(&place.store, "elsewhere").await.kinds();
            let has = |kind: &str| kinds.iter().any(|known| known == kind);
            if has("run_continued") && has("wait_started") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

async fn told(what: &str, how: &str, report: Report, make: Make) {
    let case = format!("{what}, {how}, {report:?}");
    let (place, calls, token, id) = (make(), Calls::default(), Token::default(), run_id("elsewhere"));
    let mut engine = engine(&place.store, &calls, &token).await;
    let refund = format!("refund_{what}");
    drop(engine.start::<undo_elsewhere>((what.into(), how.into(), 0)).id("elsewhere").await.unwrap());
    recorded(&place, "elsewhere", "callback_awaited", &refund, 1).await;
    if how == "cancel" {
        engine.cancel(&id, "changed my mind", "ann").await.unwrap();
        recorded(&place, "elsewhere", "invocation_abandoned", &refund, 1).await;
    } else {
        engine.signal(&id, "lose", "1", &()).await.unwrap();
        // The workflow waits behind the race, in another generation where it has begun one.
        if how == "renew" {
            renewed(&place).await;
        } else {
            recorded(&place, "elsewhere", "wait_started", "signal", 2).await;
        }
    }
    if report == Report::Between {
        let sent = engine.complete_callback(&token.newest(), &()).await;
        assert_eq!(sent, Ok(Sent::Delivered), "{case}");
    }
    if how == "lose, cancel" {
        engine.cancel(&id, "changed my mind", "ann").await.unwrap();
    } else if how != "cancel" {
        engine.signal(&id, "undo", "2", &()).await.unwrap();
    }
    if report != Report::Between {
        awaited(&engine).await;
        if report == Report::Elsewhere {
            engine.shutdown().await.unwrap();
            engine = self::engine(&place.store, &calls, &token).await;
        }
        let sent = engine.complete_callback(&token.newest(), &()).await;
        assert_eq!(sent, Ok(Sent::Delivered), "{case}");
    }
    let view = ended(&engine, "elsewhere").await;
    let is_cancelled = how.ends_with("cancel");
    assert_eq!(view.status, if is_cancelled { Status::Cancelled } else { Status::Completed }, "{case}");
    assert_eq!((view.uncompensated.len(), calls.of(&refund)), (0, 1), "{case}");
    if how == "cancel" {
        assert_eq!(view.illegal, [""; 0], "{case}");
    }
    let journal = Journal::read(&place.store, "elsewhere").await;
    assert_eq!(journal.kinds().iter().filter(|kind| *kind == "step_compensated").count(), 1, "{case}");
    let again = engine.complete_callback(&token.newest(), &()).await;
    let is_told = matches!(again, Ok(Sent::Duplicate) | Err(DecideError::RunEnded { .. }));
    assert!(is_told, "{case}: {again:?}");
    engine.verify(&id).await.unwrap();
}

#[tokio::test]
async fn an_undoing_call_that_is_cut_off_takes_its_report() {
    for how in ["cancel", "lose", "lose, cancel"] {
        for what in ["fee", "toll"] {
            for report in [Report::Between, Report::Later, Report::Elsewhere] {
                for place in stores() {
                    told(what, how, report, place).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn an_undoing_call_of_an_earlier_generation_takes_its_report() {
    for what in ["fee", "toll"] {
        for report in [Report::Between, Report::Later, Report::Elsewhere] {
            for place in stores() {
                told(what, "renew", report, place).await;
            }
        }
    }
}
