//! `#[aether::test]`: what it gives a test, and how long it waits.

use std::time::Duration;

use aether::prelude::*;
use aether_testing::{Sim, attribute};

use super::{DAY, not_stubbed};

/// Look a word up.
#[step(effect = "read")]
async fn look_up(_cx: &mut StepCx, word: String) -> Result<u32> {
    not_stubbed(word)
}

/// Wait, and look up.
#[workflow]
async fn measured(cx: &mut Cx, word: String) -> Result<u32> {
    cx.sleep(30 * DAY).await;
    Ok(look_up(cx, word).await?)
}

#[aether::test]
async fn a_test_gets_its_simulation(sim: Sim<measured>) {
    let report = sim.stub::<look_up>(|word| Ok(word.len() as u32)).run("four".into()).await;
    assert_eq!(report.assert_completed(), &4);
    report.assert_took(30 * DAY);
}

#[aether::test]
async fn a_test_may_end_with_an_error() -> Result<()> {
    let report = Sim::new::<measured>().stub::<look_up>(|_| Ok(1)).run("one".into()).await;
    let found = report.result.map_err(Failure::from)?;
    if found == 1 { Ok(()) } else { Err(Failure::permanent(found)) }
}

#[aether::test]
async fn waiting_in_a_test_takes_no_time() {
    let (real, virtual_time) = (std::time::Instant::now(), tokio::time::Instant::now());
    tokio::time::sleep(30 * DAY).await;
    assert!(virtual_time.elapsed() >= 30 * DAY && real.elapsed() < Duration::from_secs(300));
}

#[aether::test(timeout = "30s", crate = "aether_testing")]
#[should_panic(expected = "has no stub")]
async fn a_panic_of_the_test_is_the_tests(sim: Sim<measured>) {
    let _report = sim.run("four".into()).await;
}

#[aether::test(timeout = "50ms")]
#[should_panic(expected = "did not end within 50ms of real time")]
async fn a_test_that_blocks_is_given_up() {
    let (_kept, never) = std::sync::mpsc::channel::<()>();
    let _blocked = never.recv();
}

#[test]
fn an_error_is_a_failure() {
    let code = attribute::run_to_exit(Duration::from_secs(30), || async { Err::<(), _>(Failure::new("no")) });
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::FAILURE));
}
