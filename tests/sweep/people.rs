//! Sweeps over workflows that wait for people and for other systems: whoever is asked decides before the limit, whenever the
//! process dies and whatever fails.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::people::Approvals;
use aether::prelude::*;
use aether_testing::{CrashPoint, CrashReport, Sim};

const HOUR: Duration = Duration::from_secs(3600);

/// Look something up.
#[step(effect = "read")]
async fn look(_cx: &mut StepCx) -> Result<u32> {
    Err(Failure::permanent("a simulation calls the stub"))
}

/// Waits for consent for two days.
#[workflow]
async fn consent(cx: &mut Cx) -> Result<String> {
    look(cx).await?;
    Ok(cx.approval("x").expires(48 * HOUR).await?.granted()?)
}

/// Waits for consent without a limit.
#[workflow]
async fn patient(cx: &mut Cx) -> Result<String> {
    look(cx).await?;
    Ok(cx.approval("x").await?.granted()?)
}

/// Waits for consent, and reminds of it after a day.
#[workflow]
async fn reminded(cx: &mut Cx) -> Result<String> {
    cx.race((
        async |cx: &mut Cx| Ok(cx.approval("x").expires(48 * HOUR).await?.granted()?),
        async |cx: &mut Cx| {
            cx.sleep(24 * HOUR).await;
            cx.sleep(100 * HOUR).await;
            Err::<String, _>(Failure::permanent("never"))
        },
    ))
    .await
}

/// Needs consent.
#[step(effect = "tool", approval = "required")]
async fn consented(_cx: &mut StepCx) -> Result<u32> {
    Err(Failure::permanent("a simulation calls the stub"))
}

/// A call that needs consent.
#[workflow]
async fn gated(cx: &mut Cx) -> Result<u32> {
    Ok(consented(cx).await?)
}

/// Waits two days for a payment.
#[workflow]
async fn signalled(cx: &mut Cx) -> Result<u32> {
    look(cx).await?;
    Ok(cx.signal::<u32>("paid").timeout(48 * HOUR).await?)
}

/// Asks a question.
#[workflow]
async fn asking(cx: &mut Cx) -> Result<u32> {
    look(cx).await?;
    Ok(cx.ask("How many?").expires(48 * HOUR).await?)
}

/// Bill somebody; another system reports when it is paid.
#[step(effect = "external")]
async fn bill(_cx: &mut StepCx) -> Result<u32> {
    Err(Failure::permanent("a simulation calls the stub"))
}

/// A bill.
#[workflow]
async fn billed(cx: &mut Cx) -> Result<u32> {
    look(cx).await?;
    Ok(bill(cx).await?)
}

/// Pay; an operator looks what became of it.
#[step(effect = "tool", on_unknown = "ask")]
async fn pay(_cx: &mut StepCx, cents: u32) -> Result<String> {
    Err(Failure::permanent(cents))
}

/// A payment that a crash leaves in doubt.
#[workflow]
async fn buy(cx: &mut Cx) -> Result<String> {
    Ok(pay(cx, 5).await?)
}

/// Waits for a payment and for consent for as long as it says, and looks something up within that time, in two ways.
#[workflow]
async fn hurried(cx: &mut Cx, seconds: u64) -> Result<(u32, String, u32, u32)> {
    let limit = Duration::from_secs(seconds);
    let paid = cx.signal::<u32>("paid").timeout(limit).await?;
    let by = cx.approval("x").expires(limit).await?.granted()?;
    let seen = look(cx.budget(Budget::new().time(limit))).await?;
    let first = cx.race((
        async |cx: &mut Cx| Ok(look(cx).await?),
        async |cx: &mut Cx| {
            cx.sleep(limit).await;
            Err::<u32, _>(Failure::permanent("too late"))
        },
    ));
    Ok((paid, by, seen, first.await?))
}

fn waits(report: &CrashReport) -> usize {
    report.boundaries.iter().filter(|boundary| matches!(boundary.point, CrashPoint::Waiting(_))).count()
}

/// In the first half of the limit, and in the second.
const TIMES: [u32; 2] = [10, 30];

#[tokio::test]
async fn a_wait_that_ends_early_is_crashed_half_way_through() {
    for hours in TIMES {
        let time = hours * HOUR;
        let report = Sim::new::<consent>()
            .stub::<look>(|()| Ok(1))
            .grants("x", "bob")
            .people_take(time)
            .crash_at_every_boundary(());
        assert_eq!(waits(&report.await), 1);
        let limit = Approvals::new().expires(48 * HOUR);
        let sim =
            Sim::new::<gated>().stub::<consented>(|()| Ok(1)).approvals(limit).approves::<consented>("bob");
        assert_eq!(waits(&sim.people_take(time).crash_at_every_boundary(()).await), 1);
        let sim = Sim::new::<signalled>().stub::<look>(|()| Ok(1)).signal_at(time, "paid", 5);
        assert_eq!(waits(&sim.crash_at_every_boundary(()).await), 1);
        let sim = Sim::new::<patient>().stub::<look>(|()| Ok(1)).grants("x", "bob").people_take(time);
        assert_eq!(waits(&sim.crash_at_every_boundary(()).await), 1);
    }
    let sim = Sim::new::<reminded>().grants("x", "bob").people_take(30 * HOUR);
    assert_eq!(waits(&sim.crash_at_every_boundary(()).await), 2);
}

#[tokio::test]
async fn a_crash_ends_no_time_limit_that_is_longer_than_the_takeover() {
    for seconds in [4, 20, 300, 1_800, 7_200] {
        let time = Duration::from_secs(seconds) / 2;
        let sim = Sim::new::<hurried>().stub::<look>(|()| Ok(1)).signal_at(time, "paid", 5);
        let report = sim.grants("x", "bob").people_take(time).crash_at_every_boundary(seconds).await;
        assert_eq!((waits(&report), report.in_doubt.len()), (2, 0), "{seconds} s");
    }
}

#[tokio::test]
async fn half_way_is_half_of_how_long_the_run_waited() {
    // It dies after 5 hours, and the next process begins then.
    let waited = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&waited);
    let sim = Sim::new::<consent>().stub::<look>(|()| Ok(1)).grants("x", "bob").people_take(10 * HOUR);
    let sim = sim.meanwhile(move |live| {
        let noted = Arc::clone(&noted);
        async move {
            let begun = tokio::time::Instant::now();
            live.sleep_until(7 * HOUR).await;
            noted.lock().unwrap().push(begun.elapsed());
        }
    });
    sim.crash_at_every_boundary(()).await;
    let waited = waited.lock().unwrap();
    assert!(waited.iter().any(|time| (HOUR..=2 * HOUR).contains(time)), "{waited:?}");
}

#[tokio::test]
async fn a_crash_half_way_through_a_suspension_comes_before_its_end() {
    let sim = Sim::new::<consent>().stub::<look>(|()| Ok(1)).grants("x", "bob").people_take(10 * HOUR);
    let report = sim.crash(CrashPoint::Waiting(1)).run(()).await;
    assert_eq!(report.assert_completed(), "bob");
    assert_eq!(report.crashes, 1);
}

#[tokio::test]
async fn people_and_other_systems_outlive_every_fault_of_the_store() {
    for time in [Duration::ZERO, HOUR / 60, 3 * HOUR] {
        let people = Sim::new::<consent>().stub::<look>(|()| Ok(1)).grants("x", "bob").people_take(time);
        people.fail_at_every_call(()).await;
        let people = Sim::new::<patient>().stub::<look>(|()| Ok(1)).grants("x", "bob").people_take(time);
        people.fail_at_every_call(()).await;
        Sim::new::<reminded>().grants("x", "bob").people_take(time).fail_at_every_call(()).await;
        let people = Sim::new::<gated>().stub::<consented>(|()| Ok(1)).approves::<consented>("bob");
        let limit = Approvals::new().expires(48 * HOUR);
        people.approvals(limit).people_take(time).fail_at_every_call(()).await;
        let people = Sim::new::<asking>().stub::<look>(|()| Ok(1)).answer("How many?", 4).people_take(time);
        people.fail_at_every_call(()).await;
        let sender = Sim::new::<signalled>().stub::<look>(|()| Ok(1)).signal_at(time, "paid", 5);
        sender.fail_at_every_call(()).await;
        let reporter = Sim::new::<billed>().stub::<look>(|()| Ok(1)).reports_after::<bill>(time, |()| Ok(7));
        reporter.fail_at_every_call(()).await;
    }
}

#[tokio::test]
async fn what_an_operator_finds_out_counts_in_every_schedule() {
    let sim = Sim::new::<buy>().stub::<pay>(|cents| Ok(cents.to_string()));
    for time in [Duration::ZERO, HOUR] {
        let sim = sim.clone().people_take(time);
        let happened = sim.clone().resolves::<pay>(|cents| Probe::Happened(cents.to_string()));
        println!("{}", happened.every_schedule((), 300).await);
        let did_not = sim.clone().resolves::<pay>(|_| Probe::DidNotHappen);
        println!("{}", did_not.every_schedule((), 300).await);
        let unknown = sim.resolves::<pay>(|_| Probe::Unknown);
        println!("{}", unknown.every_schedule((), 300).await);
    }
}
