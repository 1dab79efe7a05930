//! Crashes at every boundary of workflows that unwind, wait, and draw; and how one of them is seen again.

use std::process::Command;
use std::time::Duration;

use aether::prelude::*;
use aether_testing::{CrashPoint, CrashReport, Sim, SimError};
use serde::{Deserialize, Serialize};

/// Runs one test of this program alone, with a variable in its environment; what it says.
pub(crate) fn again(test: &str, variable: &str, value: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    let output = command.args(["--exact", test, "--nocapture"]).env(variable, value).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Reserve a seat.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = release)]
async fn reserve(_cx: &mut StepCx, seat: u32) -> Result<String> {
    Err(Failure::permanent(seat))
}

/// Give a seat back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn release(_cx: &mut StepCx, seat: u32, reserved: Option<String>) -> Result<()> {
    Err(Failure::permanent(format_args!("{seat} {reserved:?}")))
}

/// Pay; a crash leaves it in doubt.
#[step(effect = "tool")]
async fn pay(_cx: &mut StepCx, cents: u32) -> Result<u32> {
    Err(Failure::permanent(cents))
}

/// Two seats, of which none is kept.
#[workflow]
async fn booked(cx: &mut Cx) -> Result<u32> {
    reserve(cx, 1).await?;
    cx.sleep(Duration::from_secs(24 * 3600)).await;
    reserve(cx, 2).await?;
    Err(Failure::permanent("the concert was called off"))
}

fn has(report: &CrashReport, wanted: fn(&CrashPoint) -> bool, unwinding: bool) -> bool {
    report.boundaries.iter().any(|boundary| boundary.unwinding == unwinding && wanted(&boundary.point))
}

#[tokio::test]
async fn an_unwinding_survives_a_crash_at_every_boundary() {
    let sim =
        Sim::new::<booked>().stub::<reserve>(|seat| Ok(format!("seat {seat}"))).stub::<release>(|_| Ok(()));
    let report = sim.crash_at_every_boundary(()).await;
    println!("{report}");
    assert_eq!(report.crashes(), report.boundaries.len());
    for unwinding in [false, true] {
        assert!(has(&report, |point| matches!(point, CrashPoint::Before(_)), unwinding), "{report:?}");
        assert!(has(&report, |point| matches!(point, CrashPoint::Stalled(_)), unwinding), "{report:?}");
        assert!(has(&report, |point| matches!(point, CrashPoint::InBody(_)), unwinding), "{report:?}");
        assert!(has(&report, |point| matches!(point, CrashPoint::AfterBody(_)), unwinding), "{report:?}");
    }
    assert!(has(&report, |point| matches!(point, CrashPoint::Waiting(1)), false), "{report:?}");
}

/// Draws of every kind are part of the result, and so is a payment.
#[workflow]
async fn stamped(cx: &mut Cx) -> Result<(jiff::Timestamp, uuid::Uuid, u64, u32)> {
    let (at, id) = (cx.now().await, cx.uuid().await);
    let paid = pay(cx, 5).await.unwrap_or(0);
    let drawn = cx.random().await;
    cx.sleep(Duration::from_secs(3600)).await;
    Ok((at, id, drawn, paid))
}

#[tokio::test]
async fn draws_that_a_crash_took_along_do_not_break_the_sweep() {
    let sim = Sim::new::<stamped>().stub::<pay>(Ok);
    let report = sim.crash_at_every_boundary(()).await;
    assert!(!report.same.is_empty() && !report.in_doubt.is_empty(), "{report}");
    let one = sim.run(()).await;
    let other = sim.seed(8).run(()).await;
    assert_ne!(one.assert_completed().1, other.assert_completed().1, "draws still come from the seed");
}

/// Its colour is not recorded.
#[derive(Serialize, Deserialize)]
struct Picture {
    name: String,
    #[serde(skip)]
    colour: u32,
}

/// Paint a picture.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn paint(_cx: &mut StepCx, name: String) -> Result<Picture> {
    Ok(Picture { name, colour: 7 })
}

/// Its result is what the workflow sees of a value that is not recorded whole.
#[workflow]
async fn painted(cx: &mut Cx) -> Result<(String, u32)> {
    let picture = paint(cx, "sea".into()).await?;
    cx.sleep(Duration::from_secs(3600)).await;
    Ok((picture.name, picture.colour))
}

#[tokio::test]
async fn the_first_run_sees_what_a_replay_sees() {
    let sim = Sim::new::<painted>().real::<paint>();
    sim.crash_at_every_boundary(()).await;
    assert_eq!(sim.run(()).await.assert_completed(), &("sea".to_owned(), 0));
}

/// Depends on how often this process has run it.
#[workflow]
async fn fickle(cx: &mut Cx) -> Result<u32> {
    let times = times();
    cx.sleep(Duration::from_secs(24 * 3600)).await;
    Ok(pay(cx, times).await?)
}

/// A number that is another each time.
fn times() -> u32 {
    TIMES.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

static TIMES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[test]
fn the_boundary_in_the_environment_is_tried_alone_and_shown() {
    let test = "boundaries::an_unwinding_survives_a_crash_at_every_boundary";
    let said = again(test, "AETHER_CRASH_AT", "in-body-1");
    assert!(said.contains("`booked` up to the crash:") && said.contains("and after the restart:"), "{said}");
    assert!(said.contains("-- crash in body call 1, which did nothing yet (body of 0:reserve) --"), "{said}");
    assert_eq!(said.matches("-- crash ").count(), 1, "{said}");
    let said = again(test, "AETHER_CRASH_AT", "in-body-9999");
    assert!(said.contains("has no boundary in-body-9999"), "{said}");
    let said = again(test, "AETHER_CRASH_AT", "somewhere");
    assert!(said.contains("`somewhere` names no crash point"), "{said}");
}

#[tokio::test]
async fn a_workflow_that_is_another_after_a_crash_is_told_with_a_way_to_see_it_again() {
    let sim = Sim::new::<fickle>().stub::<pay>(Ok);
    let error = sim.try_crash_at_every_boundary(()).await.unwrap_err();
    let text = error.to_string();
    match error {
        SimError::Crash { reproduce, .. } => {
            assert!(reproduce.starts_with("AETHER_CRASH_AT="), "{reproduce}");
        }
        // The replay at the end of the run without a crash is another run, too.
        SimError::Undisturbed { reproduce, .. } => {
            assert!(reproduce.starts_with("cargo test "), "{reproduce}")
        }
        other => panic!("{other}"),
    }
    assert!(text.contains("boundaries::a_workflow_that_is_another_after_a_crash"), "{text}");
}

#[test]
fn crash_points_have_names_that_parse_back() {
    use CrashPoint::{
        After, AfterBody, AfterEffect, AfterReserve, AfterStream, Before, BeforeEffect, BeforeReserve,
        BeforeStream, InBody, Stalled, Waiting,
    };
    for point in [
        Before(1),
        After(2),
        Stalled(3),
        BeforeEffect(4),
        AfterEffect(5),
        InBody(6),
        AfterBody(7),
        Waiting(8),
        BeforeReserve(9),
        AfterReserve(10),
        BeforeStream(11),
        AfterStream(12),
    ] {
        assert_eq!(point.id().parse(), Ok(point));
    }
    for wrong in ["", "before-write", "before-write-0", "before-write-x", "lunch-3"] {
        assert!(wrong.parse::<CrashPoint>().is_err(), "{wrong}");
    }
}
