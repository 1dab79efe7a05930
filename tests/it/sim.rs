//! Workflows on the simulation: results, retries, timers, panics, branches, and crashes at every write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether::definition::Probe;
use aether::error::{Fault, RunError};
use aether::prelude::*;
use aether::store::StoreError;
use aether_testing::{CrashPoint, FailingStore, Sim, SimError};
use serde::{Deserialize, Serialize};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
struct Hit {
    id: u32,
    title: String,
}

fn hit(id: u32) -> Hit {
    Hit { id, title: format!("hit {id}") }
}

fn not_stubbed<T>(args: std::fmt::Arguments<'_>) -> Result<T> {
    Err(Failure::permanent(format_args!("no stub for {args}")))
}

/// Search the archive.
#[step(effect = "read")]
async fn search(_cx: &mut StepCx, query: &str) -> Result<Vec<Hit>> {
    not_stubbed(format_args!("{query}"))
}

/// Measure something.
#[step(effect = "read")]
async fn measure(_cx: &mut StepCx, of: u32) -> Result<f64> {
    not_stubbed(format_args!("{of}"))
}

/// Send an e-mail.
#[step(effect = "tool")]
async fn send_email(_cx: &mut StepCx, to: &str, body: String) -> Result<String> {
    not_stubbed(format_args!("{to} {body}"))
}

/// Charge a card.
#[step(effect = "tool", timeout = "10s")]
async fn charge(_cx: &mut StepCx, cents: u64) -> Result<String> {
    not_stubbed(format_args!("{cents}"))
}

/// Charge a card, again if need be.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn charge_again(_cx: &mut StepCx, cents: u64) -> Result<String> {
    not_stubbed(format_args!("{cents}"))
}

/// Look whether a card was charged.
async fn was_charged(_cx: &mut StepCx, cents: u64) -> Result<Probe<String>> {
    Ok(if cents == 0 { Probe::Unknown } else { Probe::Happened(format!("found {cents}")) })
}

/// Charge a card, and look when in doubt.
#[step(effect = "tool", probe = was_charged, on_unknown = "probe")]
async fn charge_and_look(_cx: &mut StepCx, cents: u64) -> Result<String> {
    not_stubbed(format_args!("{cents}"))
}

/// Add up; touches nothing.
#[step(effect = "pure")]
async fn add(a: u32, b: u32) -> Result<u32> {
    Ok(a + b)
}

/// Search, wait, and write to whom it concerns.
#[workflow]
async fn answer(cx: &mut Cx, query: String) -> Result<String> {
    let hits = search(cx, &query).await?;
    cx.sleep(30 * DAY).await;
    let titles: Vec<&str> = hits.iter().map(|hit| hit.title.as_str()).collect();
    Ok(send_email(cx, "ann@example.org", titles.join(", ")).await?)
}

/// Two tools, a read, a sleep and a join.
#[workflow]
async fn order(cx: &mut Cx, cents: u64) -> Result<Vec<String>> {
    let hits = search(cx, "stock").await?;
    let (paid, told) = cx
        .join((
            async |cx: &mut Cx| charge(cx, cents).await,
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_secs(90)).await;
                search(cx, "owner").await
            },
        ))
        .await;
    let sum = add(cx, hits.len() as u32, told?.len() as u32).await?;
    cx.sleep(2 * DAY).await;
    let sent = send_email(cx, "bob@example.org", format!("{sum} items")).await?;
    Ok(vec![paid?, sent])
}

fn answers() -> Sim<answer> {
    Sim::new::<answer>()
        .stub::<search>(|query| Ok(vec![hit(query.len() as u32)]))
        .stub::<send_email>(|(to, body)| Ok(format!("to {to}: {body}")))
}

fn orders() -> Sim<order> {
    Sim::new::<order>()
        .stub::<search>(|query| Ok(query.bytes().map(u32::from).map(hit).collect()))
        .stub::<charge>(|cents| Ok(format!("charged {cents}")))
        .stub::<send_email>(|(to, body)| Ok(format!("{to}: {body}")))
}

#[tokio::test]
async fn a_run_has_its_result_its_effects_and_its_calls() {
    let report = answers().run("abc".into()).await;
    assert_eq!(report.assert_completed(), "to ann@example.org: hit 3");
    report.assert_effects(&["search", "sleep", "send_email"]);
    report.assert_calls::<search>(1);
    assert_eq!(report.calls::<send_email>(), [("ann@example.org".to_owned(), "hit 3".to_owned())]);
    assert_eq!(report.ledger.len(), 1);
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
}

#[tokio::test]
async fn thirty_days_pass_at_once() {
    let started = std::time::Instant::now();
    let report = answers().run("abc".into()).await;
    assert!(report.slept >= 30 * DAY && report.slept < 31 * DAY, "{:?}", report.slept);
    assert!(started.elapsed() < Duration::from_secs(300));
}

#[tokio::test]
async fn a_failing_read_is_tried_again_in_virtual_time() {
    let report = answers().fail_times::<search>(3, Failure::retryable("busy")).run("abc".into()).await;
    report.assert_completed();
    report.assert_calls::<search>(4);
    let waited = report.slept - 30 * DAY;
    // Chance shortens each wait by a fifth at most.
    assert!(waited >= Duration::from_millis((200 + 400 + 800) * 4 / 5), "{waited:?}");
}

#[tokio::test]
async fn retries_survive_a_crash_at_every_append() {
    let sim = answers().fail_times::<search>(3, Failure::retryable("busy"));
    let report = sim.crash_at_every_append("abc".into()).await;
    assert!(!report.in_doubt.is_empty() && report.writes >= 9, "{report:?}");
}

#[tokio::test]
async fn attempts_end() {
    let report = answers().fail_times::<search>(9, Failure::new("busy")).run("abc".into()).await;
    report.assert_calls::<search>(4);
    let Err(RunError::Failed(failure)) = &report.result else { panic!("{:?}", report.result) };
    assert!(failure.to_string().contains("no attempt left: busy"), "{failure}");
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
}

#[tokio::test]
async fn answers_come_in_order_and_run_out() {
    let sim =
        Sim::new::<answer>().stub_seq::<search>(vec![Err(Failure::new("no")), Ok(vec![hit(1), hit(2)])]);
    let report = sim.stub::<send_email>(|(_, body)| Ok(body)).run("abc".into()).await;
    assert_eq!(report.assert_completed(), "hit 1, hit 2");

    let sim = Sim::new::<answer>().stub_seq::<search>(vec![Err(Failure::new("no"))]);
    let error = sim.try_run("abc".into()).await.unwrap_err();
    assert!(matches!(error, SimError::StubUsedUp { answers: 1, .. }), "{error}");
}

#[tokio::test]
async fn a_step_without_a_stub_is_named_with_those_that_have_one() {
    let sim = Sim::new::<answer>().stub::<search>(|_| Ok(vec![]));
    let error = sim.try_run("abc".into()).await.unwrap_err().to_string();
    assert!(error.contains("send_email` was called and has no stub"), "{error}");
    assert!(error.contains("ann@example.org"), "{error}");
    assert!(error.contains("stubs: it::sim::search"), "{error}");
    assert!(error.contains(".stub::<send_email>"), "{error}");
}

#[tokio::test]
async fn a_panicking_tool_is_a_step_error() {
    let report = answers().panics::<send_email>("out of paper").run("abc".into()).await;
    let Err(RunError::Failed(failure)) = &report.result else { panic!("{:?}", report.result) };
    assert!(failure.to_string().contains("panicked: out of paper"), "{failure}");
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
}

/// Measure once and tell what came of it.
#[workflow]
async fn measured(cx: &mut Cx) -> Result<String> {
    Ok(match measure(cx, 7).await {
        Ok(value) => value.to_string(),
        Err(error) => format!("{error}"),
    })
}

#[tokio::test]
async fn a_value_that_is_not_a_number_cannot_be_recorded() {
    let sim = Sim::new::<measured>().stub::<measure>(|_| Ok(f64::NAN));
    let report = sim.run(()).await;
    let told = report.assert_completed();
    assert!(told.contains("cannot be recorded") && told.contains("f64"), "{told}");
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
    sim.crash_at_every_append(()).await;
}

/// Panics after a step.
#[workflow]
async fn broken(cx: &mut Cx) -> Result<u32> {
    let hits = search(cx, "x").await?;
    assert!(hits.len() > 3, "too few hits");
    Ok(1)
}

#[tokio::test]
async fn a_panicking_workflow_fails_its_run_and_no_other() {
    let sim = Sim::new::<broken>().stub::<search>(|_| Ok(vec![]));
    let report = sim.run(()).await;
    let Err(RunError::Failed(failure)) = &report.result else { panic!("{:?}", report.result) };
    assert!(failure.to_string().contains("`broken` panicked: too few hits"), "{failure}");
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
}

#[tokio::test]
async fn a_run_is_cancelled_while_it_sleeps() {
    let sim = answers().meanwhile(async |live| {
        live.sleep(3 * DAY).await;
        live.cancel("no longer needed", "ann").await.unwrap();
    });
    let report = sim.run("abc".into()).await;
    let Err(RunError::Cancelled { reason, actor, .. }) = &report.result else {
        panic!("{:?}", report.result)
    };
    assert_eq!((reason.as_str(), actor.as_str()), ("no longer needed", "ann"));
    report.assert_calls::<send_email>(0);
    assert!(report.slept < 4 * DAY, "{:?}", report.slept);
}

/// Draws, in branches that finish in another order than they begin.
#[workflow]
async fn draws(cx: &mut Cx) -> Result<Vec<String>> {
    let opened = cx.now().await;
    let id = cx.uuid().await;
    let (slow, fast) = cx
        .join((
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_secs(50)).await;
                cx.random().await
            },
            async |cx: &mut Cx| cx.random().await,
        ))
        .await;
    let items = cx
        .each(0..5u32, async |cx: &mut Cx, n| {
            cx.sleep(Duration::from_secs(u64::from(9 - n))).await;
            search(cx, &format!("item {n}")).await.map(|hits| hits.len())
        })
        .limit(2)
        .await;
    let won = cx
        .race((
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_secs(7)).await;
                "late".to_owned()
            },
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_secs(3)).await;
                "early".to_owned()
            },
        ))
        .await;
    Ok(vec![
        opened.to_string(),
        id.to_string(),
        slow.to_string(),
        fast.to_string(),
        format!("{items:?}"),
        won,
    ])
}

fn draw() -> Sim<draws> {
    Sim::new::<draws>().stub::<search>(|query| Ok(vec![hit(query.len() as u32)]))
}

#[tokio::test]
async fn one_seed_gives_one_journal() {
    let (first, second, other) =
        (draw().seed(7).run(()).await, draw().seed(7).run(()).await, draw().seed(8).run(()).await);
    assert_eq!(first.events, second.events);
    assert_eq!(first.journal(), second.journal());
    assert_ne!(first.assert_completed(), other.assert_completed());
    assert!(matches!(first.verified, Some(Ok(_))), "{:?}", first.verified);
    assert_eq!(first.assert_completed()[5], "early");
}

#[tokio::test]
async fn a_simulation_begins_when_it_is_told_to() {
    let report = draw().at("2030-05-06T07:08:09Z".parse().unwrap()).run(()).await;
    assert_eq!(report.assert_completed()[0], "2030-05-06T07:08:09Z");
}

/// Branches whose result holds nothing drawn.
#[workflow]
async fn branches(cx: &mut Cx) -> Result<Vec<String>> {
    let mut told = cx
        .each(0..4u64, async |cx: &mut Cx, n| -> Result<String> {
            cx.sleep(Duration::from_secs(60 * (5 - n))).await;
            Ok(charge(cx, n).await?)
        })
        .limit(3)
        .await
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let first = cx
        .race((
            async |cx: &mut Cx| -> Result<String> {
                cx.sleep(7 * DAY).await;
                Ok("slept".into())
            },
            async |cx: &mut Cx| -> Result<String> { Ok(send_email(cx, "a", "b".into()).await?) },
        ))
        .await?;
    told.push(first);
    told.push(cx.child::<measured>(()).await?);
    Ok(told)
}

fn branched() -> Sim<branches> {
    Sim::new::<branches>()
        .stub::<charge>(|cents| Ok(format!("charged {cents}")))
        .stub::<send_email>(|(to, body)| Ok(format!("{to}{body}")))
        .stub::<measure>(|_| Ok(0.5))
}

#[tokio::test]
async fn branches_and_children_keep_their_order() {
    let report = branched().run(()).await;
    assert_eq!(report.assert_completed(), &["charged 0", "charged 1", "charged 2", "charged 3", "ab", "0.5"]);
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
    assert_eq!(branched().run(()).await.events, report.events);
}

#[tokio::test]
async fn an_order_survives_a_crash_at_every_append() {
    let report = orders().crash_at_every_append(950).await;
    assert!(report.writes > 8, "{report:?}");
    // Two tools: each is in doubt when its intent is durable and its outcome is not.
    assert!(report.in_doubt.len() >= 4, "{report:?}");
    assert!(report.same.len() > report.in_doubt.len(), "{report:?}");
}

#[tokio::test]
async fn branches_and_children_survive_a_crash_at_every_append() {
    let report = branched().crash_at_every_append(()).await;
    assert!(report.writes > 20, "{report:?}");
}

#[tokio::test]
async fn a_run_survives_several_crashes() {
    let usual = answers().run("abc".into()).await;
    let report = answers().crash_at(2).crash(CrashPoint::After(2)).crash_at(1).run("abc".into()).await;
    assert_eq!(report.crashes, 3);
    assert_eq!(report.assert_completed(), usual.assert_completed());
}

/// Charges a card.
#[workflow]
async fn paid(cx: &mut Cx, cents: u64) -> Result<String> {
    Ok(match charge(cx, cents).await {
        Err(StepError::InDoubt(_)) => "in doubt".into(),
        other => other?,
    })
}

#[tokio::test]
async fn a_body_that_never_comes_back_leaves_its_call_in_doubt() {
    let report = Sim::new::<paid>().in_doubt::<charge>().run(5).await;
    assert_eq!(report.assert_completed(), "in doubt");
    assert!(report.slept >= Duration::from_secs(10), "{:?}", report.slept);
    assert_eq!(report.view.in_doubt().len(), 1);
    report.assert_calls::<charge>(1);
}

/// Charges a card with a step that may be sent again.
#[workflow]
async fn paid_again(cx: &mut Cx, cents: u64) -> Result<String> {
    Ok(charge_again(cx, cents).await?)
}

/// Charges a card with a step that looks when in doubt.
#[workflow]
async fn paid_and_looked(cx: &mut Cx, cents: u64) -> Result<String> {
    Ok(charge_and_look(cx, cents).await?)
}

#[tokio::test]
async fn an_idempotent_call_is_sent_again_and_a_probed_one_is_looked_for() {
    let sim = Sim::new::<paid_again>().stub::<charge_again>(|cents| Ok(format!("found {cents}")));
    let report = sim.crash_at_every_append(5).await;
    assert!(!report.in_doubt.is_empty(), "{report:?}");

    let sim = Sim::new::<paid_and_looked>().stub::<charge_and_look>(|cents| Ok(format!("found {cents}")));
    let report = sim.crash_at_every_append(5).await;
    assert!(!report.in_doubt.is_empty(), "{report:?}");
}

#[tokio::test]
async fn a_full_store_stops_a_run_before_the_tool() {
    let full = StoreError::Full { store: "disk".into(), reason: "no space left".into() };
    let error = full.clone();
    // Appends: the read, the timer, the suspension, the resumption, the timer's end, the tool's intent.
    let sim =
        answers().wrap_store(move |store| Arc::new(FailingStore::new(store).append_fails(6, error.clone())));
    let report = sim.run("abc".into()).await;
    let Err(RunError::Stopped { fault, .. }) = &report.result else { panic!("{:?}", report.journal()) };
    assert_eq!(**fault, Fault::Append(full.into()));
    report.assert_calls::<send_email>(0);
}

#[tokio::test]
async fn stubs_may_wait_and_real_bodies_may_run() {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let sim = Sim::new::<answer>().real::<send_email>().stub_async::<search>(|cx, _| {
        Box::pin(async move {
            TRIES.fetch_add(cx.attempt() + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(vec![])
        })
    });
    let report = sim.run("abc".into()).await;
    let Err(RunError::Failed(failure)) = &report.result else { panic!("{:?}", report.result) };
    assert_eq!(failure.message(), "no stub for ann@example.org ");
    assert_eq!(TRIES.load(Ordering::Relaxed), 1);
    assert!(report.slept >= 30 * DAY + Duration::from_secs(3600));
}

/// Waits for something that never comes: longer than the simulation.
#[workflow]
async fn forever(cx: &mut Cx) -> Result<u32> {
    cx.sleep(400 * DAY).await;
    Ok(1)
}

#[tokio::test]
async fn a_run_that_does_not_end_is_told_with_what_it_waits_for() {
    let error = Sim::new::<forever>().within(10 * DAY).try_run(()).await.unwrap_err();
    assert!(matches!(&error, SimError::Unfinished { waiting, .. } if waiting.len() == 1), "{error}");
    assert!(error.to_string().contains("0:sleep"), "{error}");
    let report = Sim::new::<forever>().within(500 * DAY).run(()).await;
    assert_eq!(report.assert_completed(), &1);
}

#[tokio::test]
#[should_panic(expected = "- send_email\n")]
async fn other_effects_are_shown_as_a_difference() {
    let report = Sim::new::<measured>().stub::<measure>(|_| Ok(1.0)).run(()).await;
    report.assert_effects(&["measure", "send_email"]);
}
