//! What was done and is to be undone, although what the body said of it is over a limit, or a limit was lowered since.

use std::sync::Arc;

use aether::effect::Payload;
use aether::engine::Limits;
use aether::people::{Resolution, Waiting};
use aether::prelude::*;
use aether::store::Store;
use aether::view::Status;

use super::{ended, recorded};
use crate::seeds::kit::{Calls, Place, builder, in_time, run_id, stores};

/// Wire money; nobody knows whether it came, and the error that says so is long.
#[step(effect = "tool", on_unknown = "ask")]
async fn wire_money(cx: &mut StepCx, length: usize) -> Result<String> {
    Calls::note(cx)?;
    Err(Failure::unknown("x".repeat(length)))
}

/// Ship half of what was ordered, and fail with a long error.
#[step(effect = "tool", compensate = fetch_crates)]
async fn ship_crates(cx: &mut StepCx, length: usize) -> Result<String> {
    Calls::note(cx)?;
    Err(Failure::compensatable("x".repeat(length)))
}

/// Fetch what was shipped.
#[step(effect = "tool")]
async fn fetch_crates(cx: &mut StepCx, length: usize, shipped: Option<String>) -> Result<()> {
    assert!(length == 0 || shipped.is_none());
    Calls::note(cx)
}

/// Print a long ticket.
#[step(effect = "tool", compensate = void_ticket)]
async fn print_ticket(cx: &mut StepCx, length: usize) -> Result<String> {
    Calls::note(cx)?;
    Ok("x".repeat(length))
}

/// Void it.
#[step(effect = "tool")]
async fn void_ticket(cx: &mut StepCx, length: usize, printed: Option<String>) -> Result<()> {
    assert!(length == 0 || printed.is_none());
    Calls::note(cx)
}

/// Weigh crates; JSON cannot hold what comes of it.
#[step(effect = "tool", compensate = level_scale)]
async fn weigh_crate(cx: &mut StepCx) -> Result<std::collections::BTreeMap<(u32, u32), u32>> {
    Calls::note(cx)?;
    Ok([((1, 2), 3)].into())
}

/// Level the scale.
#[step(effect = "tool")]
async fn level_scale(
    cx: &mut StepCx,
    weighed: Option<std::collections::BTreeMap<(u32, u32), u32>>,
) -> Result<()> {
    assert!(weighed.is_none());
    Calls::note(cx)
}

/// Ask for a seat that is taken at first, which a long error says.
#[step(effect = "tool", idempotent, retry(max_retries = 1, delay = "1ms"))]
async fn take_seat(cx: &mut StepCx, length: usize) -> Result<u32> {
    Calls::note(cx)?;
    if cx.attempt() == 0 { Err(Failure::retryable("x".repeat(length))) } else { Ok(7) }
}

/// One of them.
#[workflow]
async fn unkept(cx: &mut Cx, what: String, length: usize) -> Result<String> {
    match what.as_str() {
        "wire" => Ok(wire_money(cx, length).await?),
        "ship" => Ok(ship_crates(cx, length).await?),
        "print" => {
            let printed = print_ticket(cx, length).await;
            Ok(printed.unwrap_or_else(|error| error.to_string()))
        }
        "weigh" => Ok(weigh_crate(cx).await.map_or_else(|error| error.to_string(), |_| String::new())),
        _ => Ok(take_seat(cx, length).await?.to_string()),
    }
}

const LENGTH: usize = 5_000;

async fn engine(store: &Arc<dyn Store>, calls: &Calls, limits: Limits) -> Engine {
    builder(store, calls).limits(limits).start().await.unwrap()
}

async fn run(place: &Place, calls: &Calls, what: &str) -> (Engine, RunHandle<unkept>) {
    let limits = Limits { error: 1_000, payload: 2_000, ..Limits::default() };
    let engine = engine(&place.store, calls, limits).await;
    let run = engine.start::<unkept>((what.into(), LENGTH)).id(what).await.unwrap();
    (engine, run)
}

#[tokio::test]
async fn an_error_over_the_limit_keeps_its_class() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let (engine, wire) = run(&place, &calls, "wire").await;
        recorded(&place, "wire", "invocation_resolved", "wire_money", 1).await;
        let wait = engine.pending(wire.id()).await.unwrap().remove(0);
        assert_eq!(wait.waiting, Waiting::Resolution);
        let happened = Resolution::Happened(Payload::encode(&"w-1").unwrap());
        engine.resolve(wire.id(), wait.invocation.as_ref().unwrap(), happened, "ann").await.unwrap();
        assert_eq!(in_time(wire.result()).await.unwrap(), "w-1");
        assert_eq!(calls.of("wire_money"), 1);

        let (_engine, ship) = run(&place, &calls, "ship").await;
        let said = in_time(ship.result()).await.unwrap_err().to_string();
        assert!(said.contains("is over the limit of 1000 (`Limits::error`)"), "{said}");
        assert_eq!((calls.of("ship_crates"), calls.of("fetch_crates")), (1, 1));

        let (_engine, seat) = run(&place, &calls, "seat").await;
        assert_eq!(in_time(seat.result()).await.unwrap(), "7");
        let keys = calls.keys("take_seat");
        assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
    }
}

#[tokio::test]
async fn what_was_done_is_undone_although_its_value_cannot_be_recorded() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        for (what, does, undoes) in
            [("print", "print_ticket", "void_ticket"), ("weigh", "weigh_crate", "level_scale")]
        {
            let (engine, run) = run(&place, &calls, what).await;
            let said = in_time(run.result()).await.unwrap();
            assert!(said.starts_with("cannot be recorded"), "{said}");
            assert_eq!((calls.of(does), calls.of(undoes)), (1, 1), "also where the run completes");
            engine.verify(run.id()).await.unwrap();
        }
    }
}

/// Reserve a hall.
#[step(effect = "tool", compensate = free_hall)]
async fn reserve_hall(cx: &mut StepCx, plan: String) -> Result<usize> {
    Calls::note(cx)?;
    Ok(plan.len())
}

/// Free it.
#[step(effect = "tool")]
async fn free_hall(cx: &mut StepCx, plan: String, reserved: Option<usize>) -> Result<()> {
    assert_eq!(reserved, Some(plan.len()));
    Calls::note(cx)
}

/// Reserve a hall, and wait.
#[workflow]
async fn hold_hall(cx: &mut Cx, plan: String) -> Result<()> {
    reserve_hall(cx, plan).await?;
    Ok(cx.signal("hall").await?)
}

#[tokio::test]
async fn a_limit_that_is_lowered_refuses_no_undoing_call() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let first = engine(&place.store, &calls, Limits::default()).await;
        drop(first.start::<hold_hall>("p".repeat(LENGTH)).id("hall").await.unwrap());
        recorded(&place, "hall", "wait_started", "signal", 1).await;
        first.shutdown().await.unwrap();
        let lowered = Limits { payload: 1_000, name: 8, ..Limits::default() };
        let second = engine(&place.store, &calls, lowered).await;
        second.cancel(&run_id("hall"), "too late", "ann").await.unwrap();
        let view = ended(&second, "hall").await;
        assert_eq!(
            (view.status, view.uncompensated.len()),
            (Status::Cancelled, 0),
            "{:?}",
            view.uncompensated
        );
        assert_eq!(calls.of("free_hall"), 1);
        second.verify(&run_id("hall")).await.unwrap();
    }
}
