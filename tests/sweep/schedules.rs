//! Schedules: bugs that only some of them show are found and made small; what is right passes them all; and each is the
//! same every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
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
            async |cx: &mut Cx| -> Result<u32> { Ok(cx.signal("paid").await?) },
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

#[tokio::test]
async fn two_sweeps_of_one_seed_are_the_same() {
    let swept = async |seed| fine_sim().seed(seed).every_schedule((), 100).await.fingerprint;
    assert_eq!(swept(3).await, swept(3).await);
    assert_ne!(swept(3).await, swept(4).await);
}

/// Two branches wait for the same signal, and each takes what comes.
#[workflow]
async fn shared_signal(cx: &mut Cx) -> Result<Vec<u32>> {
    let (first, second) = cx
        .join((
            async |cx: &mut Cx| -> Result<u32> {
                let found = look(cx, 1).await?;
                Ok(found + cx.signal::<u32>("item").await?)
            },
            async |cx: &mut Cx| -> Result<u32> { Ok(cx.signal("item").await?) },
        ))
        .await;
    Ok(vec![first?, second?])
}

#[tokio::test]
async fn a_signal_that_two_branches_read_is_found() {
    let sim = Sim::new::<shared_signal>().stub::<look>(Ok).signal_at(SECOND, "item", 10).signal_at(
        2 * SECOND,
        "item",
        20,
    );
    let error = sim.every_schedule((), 200).attempt().await.unwrap_err();
    let told = told(&error);
    assert!(told.broken.contains("the run is"), "{error}");
    assert!(told.choices.lines().count() <= 3, "{error}");
}

/// Waits for one of two signals, twice; the one that comes second is dropped with its wait, if it comes too early.
#[workflow]
async fn drops_a_wait(cx: &mut Cx) -> Result<u32> {
    let first: Result<u32> = cx
        .race((
            async |cx: &mut Cx| -> Result<u32> { Ok(cx.signal("card").await?) },
            async |cx: &mut Cx| -> Result<u32> {
                // It loses what it has taken from the inbox when the other branch wins.
                let amount: u32 = cx.signal("transfer").await?;
                Ok(look(cx, amount).await?)
            },
        ))
        .await;
    let first = first?;
    if first == 1 {
        let _transfer: u32 = cx.signal("transfer").await?;
    }
    Ok(first)
}

#[tokio::test]
async fn a_message_that_is_lost_with_its_wait_is_found() {
    let sim = Sim::new::<drops_a_wait>().stub::<look>(Ok).signal_at(SECOND, "card", 1).signal_at(
        60 * SECOND,
        "transfer",
        2,
    );
    let error = sim.every_schedule((), 1_000).signals_may_be_left().attempt().await.unwrap_err();
    let told = told(&error);
    assert!(told.broken.contains("did not end") && told.broken.contains("signal"), "{error}");
    assert!(told.choices.lines().count() <= 4, "{error}");
}

/// Asks for consent, and pays by cheque when nobody answers in time, though consent is looked at once more.
#[workflow]
async fn pays_twice(cx: &mut Cx) -> Result<u32> {
    let consent: Result<u32, _> = cx.signal("consent").timeout(HOUR).await;
    let mut paid = 0;
    if consent.is_err() {
        paid += pay_by_cheque(cx, 5).await?;
    }
    // Meant to be the other case of the same question.
    let consent = match consent {
        Ok(consent) => Ok(consent),
        Err(_) => cx.signal::<u32>("consent").timeout(SECOND).await,
    };
    if consent.is_ok() {
        paid += pay(cx, 5).await?;
    }
    Ok(paid)
}

fn pays_twice_sim() -> Sim<pays_twice> {
    Sim::new::<pays_twice>().stub::<pay>(Ok).stub::<pay_by_cheque>(Ok).signal_at(SECOND, "consent", 1)
}

#[tokio::test]
async fn a_payment_that_races_with_a_time_limit_is_found() {
    let once = |report: &aether_testing::SimReport<pays_twice>| {
        let paid = report.calls::<pay>().len() + report.calls::<pay_by_cheque>().len();
        assert!(paid <= 1, "it paid {paid} times");
    };
    let sweep = pays_twice_sim().every_schedule((), 1_000).signals_may_be_left().check(once);
    let error = sweep.attempt().await.unwrap_err();
    let told = told(&error);
    assert_eq!(told.broken, "it paid 2 times");
    assert!(told.choices.lines().count() <= 3, "{error}");
    assert!(told.line.contains("signal1-"), "{error}");
}

#[tokio::test]
async fn the_line_of_a_failure_shows_that_schedule_alone_and_each_time_in_the_same_way() {
    let test = "schedules::a_payment_that_races_with_a_time_limit_is_found";
    let error = pays_twice_sim().every_schedule((), 1_000).attempt().await.unwrap_err();
    let line = told(&error).line;
    let shown = || crate::boundaries::again(test, "AETHER_SCHEDULE", &line);
    let trace = |said: &str| {
        said.split("running 1 test").nth(1).unwrap().split("test result").next().unwrap().to_owned()
    };
    let (first, second) = (shown(), shown());
    assert!(first.contains("a process begins") && first.contains("signal1: signal `consent`"), "{first}");
    assert_eq!(trace(&first), trace(&second));
    let said = crate::boundaries::again(test, "AETHER_SCHEDULE", "9:signal1-somewhere");
    assert!(said.contains("`signal1-somewhere` is no choice of a schedule"), "{said}");
}

/// Hold a seat.
#[step(effect = "tool", idempotent, on_unknown = "retry", compensate = free)]
async fn hold(_cx: &mut StepCx, seat: u32) -> Result<u32> {
    Err(Failure::permanent(seat))
}

/// Free a seat.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn free(_cx: &mut StepCx, seat: u32, held: Option<u32>) -> Result<()> {
    Err(Failure::permanent(format_args!("{seat} {held:?}")))
}

/// Print a ticket, in another system.
#[step(effect = "external", approval = "required")]
async fn print(_cx: &mut StepCx, seat: u32) -> Result<u32> {
    Err(Failure::permanent(seat))
}

/// Sells one seat.
#[workflow]
async fn seat(cx: &mut Cx, number: u32) -> Result<u32> {
    let held = hold(cx, number).await?;
    let _name: String = cx.ask(format!("Who sits on {number}?")).await?;
    cx.sleep(HOUR).await;
    Ok(print(cx, held).await?)
}

/// Sells three seats, one of them by another run, unless somebody cancels it.
#[workflow]
async fn tour(cx: &mut Cx) -> Result<u32> {
    let sold = cx
        .each(1..3, async |cx: &mut Cx, number| -> Result<u32> {
            let held = hold(cx, number).await?;
            let paid: u32 = cx.signal(&format!("paid {number}")).await?;
            Ok(held + paid + look(cx, number).await?)
        })
        .await;
    let child = cx.child::<seat>(3).await?;
    let fastest: Result<u32> = cx
        .race((
            async |cx: &mut Cx| -> Result<u32> { Ok(look(cx, 4).await?) },
            async |cx: &mut Cx| -> Result<u32> { Ok(look(cx, 5).await?) },
        ))
        .await;
    Ok(sold.into_iter().sum::<Result<u32>>()? + child + fastest?.min(1))
}

fn tour_sim() -> Sim<tour> {
    Sim::new::<tour>()
        .stub::<look>(Ok)
        .stub::<hold>(Ok)
        .stub::<free>(|_| Ok(()))
        .approves::<print>("ann")
        .reports_after::<print>(HOUR, Ok)
        .answers(|question| question.as_str().is_some_and(|q| q.starts_with("Who")).then_some("Bob"))
        .people_take(SECOND)
        .signal_at(SECOND, "paid 1", 10)
        .signal_at(2 * SECOND, "paid 2", 20)
}

#[tokio::test]
async fn branches_children_callbacks_and_races_keep_the_rules() {
    let report = tour_sim().every_schedule((), 150).await;
    println!("{report}");
    assert!(report.outcomes > 1, "{report}");
}

#[tokio::test]
async fn a_cancel_at_any_time_keeps_the_rules() {
    let report = tour_sim().cancel_at(HOUR, "called off", "ann").every_schedule((), 150).await;
    println!("{report}");
    assert!(report.outcomes > 1, "{report}");
}

/// Pays; what became of it says whether it is known.
#[workflow]
async fn pays_or_doubts(cx: &mut Cx, cents: u32) -> Result<u32> {
    match pay(cx, cents).await {
        Ok(paid) => Ok(paid),
        Err(StepError::InDoubt(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Has another run pay.
#[workflow]
async fn has_it_paid(cx: &mut Cx) -> Result<u32> {
    Ok(cx.child::<pays_or_doubts>(5).await?)
}

#[tokio::test]
async fn a_call_of_a_child_that_is_in_doubt_without_a_crash_is_found() {
    // From some simulation on, nobody knows what became of the payment.
    for known in [1, 2, 7] {
        let calls = Arc::new(AtomicU32::new(0));
        let sim = Sim::new::<has_it_paid>().stub::<pay>(move |cents| {
            if calls.fetch_add(1, Ordering::Relaxed) < known {
                Ok(cents)
            } else {
                Err(Failure::unknown("the line went dead"))
            }
        });
        let error = sim.every_schedule((), 50).attempt().await.unwrap_err();
        assert!(told(&error).broken.contains("is in doubt, though no crash cut it off"), "{known}: {error}");
    }
}

/// Has another run pay, and waits for it for a second at most.
#[workflow]
async fn has_it_paid_at_once(cx: &mut Cx) -> Result<u32> {
    cx.race((
        async |cx: &mut Cx| -> Result<u32> { Ok(cx.child::<pays_or_doubts>(5).await?) },
        async |cx: &mut Cx| -> Result<u32> {
            cx.sleep(SECOND).await;
            Ok(0)
        },
    ))
    .await
}

#[tokio::test]
async fn what_a_cancelled_child_drops_keeps_the_rules() {
    let sim = Sim::new::<has_it_paid_at_once>().stub::<pay>(Ok);
    println!("{}", sim.clone().every_schedule((), 150).results_may_differ().await);
    let sim = sim.cancel_at(SECOND / 2, "called off", "ann");
    println!("{}", sim.every_schedule((), 150).results_may_differ().await);
}

/// Pays what is consented to within an hour.
#[workflow]
async fn in_time(cx: &mut Cx) -> Result<Option<u32>> {
    let consent: Result<u32, _> = cx.signal("consent").timeout(HOUR).await;
    Ok(match consent {
        Ok(cents) => Some(pay(cx, cents).await?),
        Err(_) => None,
    })
}

#[tokio::test]
async fn a_message_that_comes_too_late_is_found_unless_it_may_be_left() {
    let sim = Sim::new::<in_time>().stub::<pay>(Ok).signal_at(60 * SECOND, "consent", 5);
    let error = sim.every_schedule((), 500).attempt().await.unwrap_err();
    let told = told(&error);
    assert!(told.broken.contains("was acknowledged to its sender, and the run ended without it"), "{error}");
    // When it comes, and at most what made the process end before.
    assert!(told.choices.lines().count() <= 3, "{error}");
    let report = sim.every_schedule((), 500).signals_may_be_left().await;
    assert_eq!(report.outcomes, 2, "{report}");
}
