//! Schedules: bugs that only some of them show are found and made small; what is right passes them all; and each is the
//! same every time.

use std::time::Duration;

use aether::prelude::*;
use aether_testing::{Sim, SimError};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Look something up.
#[step(effect = "read")]
async fn look(_cx: &mut StepCx, what: u32) -> Result<u32> {
    Err(Failure::permanent(what))
}

/// Pay somebody.
#[step(effect = "tool")]
async fn pay(_cx: &mut StepCx, cents: u32) -> Result<u32> {
    Err(Failure::permanent(cents))
}

/// Pay by another way.
#[step(effect = "tool")]
async fn pay_by_cheque(_cx: &mut StepCx, cents: u32) -> Result<u32> {
    Err(Failure::permanent(cents))
}

/// What a failing schedule is told to be.
struct Told {
    broken: String,
    choices: String,
    /// The value of the environment variable.
    line: String,
}

fn told(error: &SimError) -> Told {
    let SimError::Schedule { broken, choices, reproduce, .. } = error else { panic!("{error}") };
    println!("{error}");
    let line = reproduce.strip_prefix("AETHER_SCHEDULE=").unwrap().split(' ').next().unwrap();
    Told { broken: broken.clone(), choices: choices.clone(), line: line.into() }
}

/// Two messages, a race, a question, a read and a payment, in order.
#[workflow]
async fn fine(cx: &mut Cx) -> Result<u32> {
    let order: u32 = cx.signal("ordered").await?;
    let (price, paid) = cx
        .join((
            async |cx: &mut Cx| look(cx, order).await,
            async |cx: &mut Cx| -> Result<u32> { Ok(cx.signal("paid").timeout(24 * 10 * HOUR).await?) },
        ))
        .await;
    let tip: u32 = cx.ask("How much more?").await?;
    cx.sleep(SECOND).await;
    Ok(pay(cx, price? + paid? + tip).await?)
}

fn fine_sim() -> Sim<fine> {
    Sim::new::<fine>()
        .stub::<look>(Ok)
        .stub::<pay>(Ok)
        .signal_at(SECOND, "ordered", 7)
        .signal_at(60 * SECOND, "paid", 5)
        .answer("How much more?", 1)
}

#[tokio::test]
async fn what_is_right_passes_a_thousand_schedules() {
    let report = fine_sim().every_schedule((), 1_000).await;
    println!("{report}");
    assert_eq!(report.schedules, 1_000);
    assert_eq!(report.outcomes, 1, "{report}");
    assert!(report.journals > 20 && report.crashes > 100 && report.shutdowns > 50, "{report}");
}
