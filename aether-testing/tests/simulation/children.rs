//! Stubs of child runs.

use std::time::Duration;

use aether::prelude::*;
use aether_testing::{Live, Sim};

use crate::not_stubbed;

/// Print a page.
#[step(effect = "tool")]
async fn print(_cx: &mut StepCx, page: u32) -> Result<u32> {
    not_stubbed(page)
}

/// Print a chapter.
#[workflow]
async fn chapter(cx: &mut Cx, number: u32) -> Result<u32> {
    Ok(print(cx, number).await?)
}

/// Print a part: two chapters, one of which it does not wait for at once.
#[workflow]
async fn part(cx: &mut Cx, number: u32) -> Result<u32> {
    let started = cx.start_child::<chapter>(number * 10).id(format!("part-{number}")).await?;
    let second = cx.child::<chapter>(number * 10 + 1).await?;
    Ok(started.result(cx).await? + second)
}

/// Print a book; a part that fails has no pages.
#[workflow]
async fn book(cx: &mut Cx, parts: u32) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    for number in 0..parts {
        pages.push(match cx.child::<part>(number).await {
            Ok(pages) => pages.to_string(),
            Err(error) => error.to_string(),
        });
    }
    Ok(pages)
}

fn torn(number: u32) -> Result<u32> {
    match number {
        1 => Err(Failure::permanent("the paper is torn")),
        number => Ok(number + 100),
    }
}

#[tokio::test]
async fn a_stub_ends_a_child_with_its_value_or_its_error_and_its_code_does_not_run() {
    let sim = Sim::new::<book>().stub_child::<part>(torn);
    let report = sim.run(3).await;
    assert_eq!(report.assert_completed(), &["100", "the paper is torn", "102"]);
    report.assert_calls::<print>(0);
    sim.crash_at_every_boundary(3).await;
    sim.check_deterministic(3).await;
}

#[tokio::test]
async fn children_of_children_are_answered_and_others_run() {
    let sim = Sim::new::<book>().stub_child::<chapter>(Ok);
    assert_eq!(sim.run(2).await.assert_completed(), &["1", "21"]);
    sim.crash_at_every_boundary(1).await;
    // Without a stub, the code of a child runs over the stubs of the simulation.
    let sim = Sim::new::<book>().stub::<print>(Ok);
    let report = sim.run(2).await;
    assert_eq!(report.assert_completed(), &["1", "21"]);
    report.assert_calls::<print>(4);
}

#[tokio::test]
async fn a_stub_is_not_for_the_simulated_run() {
    let sim = Sim::new::<part>().stub_child::<part>(|_| panic!("never asked")).stub_child::<chapter>(Ok);
    assert_eq!(sim.run(1).await.assert_completed(), &21);
}

static TIMES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// A number that is another each time.
fn times() -> u32 {
    TIMES.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
}

/// Print another page each time that its code runs.
#[workflow]
async fn leaflet(cx: &mut Cx) -> Result<u32> {
    Ok(print(cx, times()).await?)
}

/// Hand a leaflet out, whatever is on it.
#[workflow]
async fn handed_out(cx: &mut Cx) -> Result<()> {
    cx.child::<leaflet>(()).await?;
    Ok(())
}

/// Print, and sleep.
#[workflow]
async fn asleep(cx: &mut Cx) -> Result<u32> {
    let printed = print(cx, times()).await?;
    cx.sleep(Duration::from_secs(3_600)).await;
    Ok(printed)
}

#[tokio::test]
async fn what_a_child_recorded_is_replayed_and_so_is_what_a_cancelled_run_did() {
    let sim = Sim::new::<handed_out>().stub::<print>(Ok);
    let report = sim.run(()).await;
    report.assert_completed();
    assert!(matches!(report.verified, Some(Ok(_))), "the parent has no part in it: {:?}", report.verified);
    assert!(report.others.iter().any(|(_, verified)| verified.is_err()), "{:?}", report.others);
    let refused = sim.try_crash_at_every_boundary(()).await.unwrap_err().to_string();
    assert!(refused.contains("does not replay") && refused.contains("sim/"), "{refused}");
    assert!(sim.try_check_deterministic(()).await.is_err());

    let sim = Sim::new::<asleep>().stub::<print>(Ok).meanwhile(|live: Live| async move {
        live.sleep(Duration::from_secs(60)).await;
        live.cancel("not needed", "ann").await.unwrap();
    });
    let report = sim.run(()).await;
    report.assert_status(aether::view::Status::Cancelled);
    assert!(matches!(report.verified, Some(Err(_))), "{:?}", report.verified);
}
