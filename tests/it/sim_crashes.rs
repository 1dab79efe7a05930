//! Crashes at every write of workflows that are hard to get right: races lost in flight, operators, retried tools,
//! irreversible steps, children with tools, and one crash after another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aether::error::RunError;
use aether::http::CxHttp as _;
use aether::people::Resolution;
use aether::prelude::*;
use aether::store::StoreError;
use aether::store::event::Event;
use aether::store::ledger::LedgerStatus;
use aether_testing::{CrashPoint, FailingStore, Live, Sim};

const HOUR: Duration = Duration::from_secs(3600);

fn not_stubbed<T>(args: std::fmt::Arguments<'_>) -> Result<T> {
    Err(Failure::permanent(format_args!("no stub for {args}")))
}

/// Pay somebody.
#[step(effect = "tool", timeout = "10m")]
async fn pay(_cx: &mut StepCx, to: String) -> Result<String> {
    not_stubbed(format_args!("{to}"))
}

/// Pay somebody; an operator decides when in doubt.
#[step(effect = "tool", timeout = "10m", on_unknown = "ask")]
async fn pay_or_ask(_cx: &mut StepCx, to: String) -> Result<String> {
    not_stubbed(format_args!("{to}"))
}

/// Pay somebody, several times if need be.
#[step(effect = "tool", idempotent, retry(max_retries = 3, delay = "1s"))]
async fn pay_again(_cx: &mut StepCx, to: String) -> Result<String> {
    not_stubbed(format_args!("{to}"))
}

/// Delete an account, once.
#[step(effect = "tool", irreversible)]
async fn delete(_cx: &mut StepCx, account: String) -> Result<String> {
    not_stubbed(format_args!("{account}"))
}

/// A payment that loses against a timer.
#[workflow]
async fn raced(cx: &mut Cx) -> Result<String> {
    let first = cx
        .race((
            async |cx: &mut Cx| -> Result<String> { Ok(pay(cx, "slow".into()).await?) },
            async |cx: &mut Cx| -> Result<String> {
                cx.sleep(Duration::from_secs(60)).await;
                Ok("timer".to_owned())
            },
        ))
        .await?;
    let paid = pay(cx, "quick".into()).await?;
    cx.sleep(HOUR).await;
    Ok(format!("{first} {paid}"))
}

#[tokio::test]
async fn a_lost_race_stays_decided() {
    let sim = Sim::new::<raced>().stub_async::<pay>(|_, to| {
        Box::pin(async move {
            if to == "slow" {
                tokio::time::sleep(Duration::from_secs(300)).await;
            }
            Ok(to)
        })
    });
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), "timer quick");
    assert_eq!(report.view.in_doubt().len(), 1, "the payment that lost was in flight");
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
    sim.crash_at_every_append(()).await;
}

/// Contacts that are sent as a hash map, whose members have another order in each process.
#[workflow]
async fn contacts_sent(cx: &mut Cx, fields: HashMap<String, String>) -> Result<u16> {
    let sent = cx.http().post("https://crm.example/contacts").json(&fields).idempotent().send().await?;
    cx.sleep(HOUR).await;
    Ok(sent.status)
}

#[tokio::test]
async fn a_hash_map_in_a_request_is_the_same_one_after_each_crash() {
    // The first write creates the run: behind a crash before it, the request is made for the first time.
    for write in 2..6 {
        let sim = Sim::new::<contacts_sent>().http("POST", "*/contacts", |_| 201).crash_at(write);
        let fields: HashMap<String, String> = (0..6).map(|n| (format!("f{n}"), n.to_string())).collect();
        let report = sim.run(fields).await;
        assert_eq!((*report.assert_completed(), report.crashes), (201, 1), "{write}");
    }
}

/// Two payments, of which the first to come back is taken.
#[workflow]
async fn either(cx: &mut Cx) -> Result<String> {
    cx.race((
        async |cx: &mut Cx| -> Result<String> { Ok(pay(cx, "ann".into()).await?) },
        async |cx: &mut Cx| -> Result<String> { Ok(pay(cx, "bob".into()).await?) },
    ))
    .await
}

#[tokio::test]
async fn a_branch_that_loses_before_it_is_asked_again_stays_in_doubt() {
    let sim = Sim::new::<either>().stub_async::<pay>(|_, to| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(to)
        })
    });
    // Both intents are durable: after the crash the first branch is in doubt at once, and ends the race.
    let report = sim.clone().crash(CrashPoint::After(3)).run(()).await;
    let Err(RunError::Failed(failure)) = &report.result else { panic!("{:?}", report.result) };
    assert!(failure.to_string().contains("in doubt"), "{failure}");
    assert_eq!(report.view.in_doubt().len(), 2, "{report:?}");
    assert!(report.ledger.iter().all(|row| row.status == LedgerStatus::InDoubt), "{:?}", report.ledger);
    let abandoned = report.events.iter().filter(|event| matches!(event, Event::InvocationAbandoned(_)));
    assert_eq!(abandoned.count(), 1);
    assert!(matches!(report.verified, Some(Ok(_))), "{:?}", report.verified);
    sim.crash_at_every_append(()).await;
}

/// One payment that an operator may decide about.
#[workflow]
async fn asked(cx: &mut Cx) -> Result<String> {
    let paid = pay_or_ask(cx, "ann".into()).await?;
    cx.sleep(HOUR).await;
    Ok(paid)
}

async fn resolve(live: Live) {
    loop {
        live.sleep(2 * HOUR).await;
        let Ok(view) = live.engine().view(live.run_id()).await else { return };
        for step in view.in_doubt() {
            let (Ok(value), Some(invocation)) =
                (aether::effect::Payload::encode("ann"), step.invocation.clone())
            else {
                continue;
            };
            let _ended =
                live.engine().resolve(live.run_id(), &invocation, Resolution::Happened(value), "bob").await;
        }
    }
}

#[tokio::test]
async fn an_operator_decides_after_a_crash() {
    let sim = Sim::new::<asked>().stub::<pay_or_ask>(Ok).meanwhile(resolve);
    let report = sim.crash_at_every_append(()).await;
    assert!(!report.in_doubt.is_empty(), "{report:?}");
    let report = Sim::new::<asked>().in_doubt::<pay_or_ask>().meanwhile(resolve).run(()).await;
    assert_eq!(report.assert_completed(), "ann");
    report.assert_calls::<pay_or_ask>(1);
    let sim = Sim::new::<asked>().in_doubt::<pay_or_ask>().meanwhile(resolve);
    sim.crash_at_every_append(()).await;
}

#[tokio::test]
async fn a_cancelled_run_pays_at_most_once_whenever_it_crashes() {
    let cancel = async |live: Live| {
        live.sleep(HOUR / 2).await;
        let _ended = live.cancel("enough", "ann").await;
    };
    let sim = Sim::new::<asked>().stub::<pay_or_ask>(Ok).meanwhile(cancel);
    let report = sim.run(()).await;
    assert!(matches!(report.result, Err(RunError::Cancelled { .. })), "{:?}", report.result);
    // A dead process is gone for longer than the sleep, so that the run may also end before it is cancelled.
    for write in 1..=4 {
        for point in [CrashPoint::Before(write), CrashPoint::After(write)] {
            let report = sim.clone().crash(point).run(()).await;
            assert!(report.calls::<pay_or_ask>().len() <= 1, "{point}");
            let ended = matches!(report.result, Ok(_) | Err(RunError::Cancelled { .. }));
            assert!(ended, "{point}: {:?}", report.result);
            assert!(report.view.illegal.is_empty(), "{point}: {:?}", report.view.illegal);
        }
    }
}

/// A tool that fails at first.
#[workflow]
async fn retried(cx: &mut Cx) -> Result<String> {
    Ok(pay_again(cx, "ann".into()).await?)
}

#[tokio::test]
async fn a_retried_tool_gets_a_new_key_only_after_a_definite_failure() {
    let sim =
        Sim::new::<retried>().fail_times::<pay_again>(2, Failure::retryable("busy")).stub::<pay_again>(Ok);
    let report = sim.run(()).await;
    report.assert_completed();
    report.assert_calls::<pay_again>(3);
    let keys: std::collections::BTreeSet<_> = report.log.iter().map(|call| call.key.clone()).collect();
    assert_eq!(keys.len(), 3);
    sim.crash_at_every_append(()).await;
}

/// Pay somebody; the bank knows the key.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn pay_by_key(_cx: &mut StepCx, to: String) -> Result<String> {
    not_stubbed(format_args!("{to}"))
}

/// Pays by key.
#[workflow]
async fn paid_by_key(cx: &mut Cx) -> Result<String> {
    Ok(pay_by_key(cx, "ann".into()).await?)
}

#[tokio::test]
async fn a_tool_that_is_refused_when_it_is_called_again_may_be_in_doubt_after_a_crash() {
    let sim = Sim::new::<paid_by_key>().stub::<pay_by_key>(|_| Err(Failure::permanent("the bank is closed")));
    sim.run(()).await.assert_failed();
    sim.crash_at_every_append(()).await;
}

/// Deletes twice; the second is refused.
#[workflow]
async fn deleted(cx: &mut Cx) -> Result<String> {
    let first = delete(cx, "a1".into()).await?;
    match delete(cx, "a1".into()).await {
        Err(StepError::Taken(_)) => Ok(format!("{first}, once")),
        Err(error) => Err(error.into()),
        Ok(again) => Ok(format!("{first} and {again}")),
    }
}

#[tokio::test]
async fn an_irreversible_step_is_done_once() {
    let sim = Sim::new::<deleted>().stub::<delete>(Ok);
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), "a1, once");
    report.assert_calls::<delete>(1);
    sim.crash_at_every_append(()).await;
}

/// A child that pays, twice.
#[workflow]
async fn child(cx: &mut Cx, to: String) -> Result<String> {
    let first = pay(cx, to.clone()).await?;
    cx.sleep(HOUR).await;
    let second = pay(cx, format!("{to} again")).await?;
    Ok(format!("{first}, {second}"))
}

/// Children side by side, and the same workflow inline.
#[workflow]
async fn parent(cx: &mut Cx) -> Result<Vec<String>> {
    let mut paid = Vec::new();
    let children =
        cx.each(["a".to_owned(), "b".to_owned()], async |cx: &mut Cx, to| cx.child::<child>(to).await).await;
    for child in children {
        paid.push(child?);
    }
    paid.push(child(cx, "c".into()).await?);
    Ok(paid)
}

#[tokio::test]
async fn children_with_tools_survive() {
    let sim = Sim::new::<parent>().stub::<pay>(Ok);
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), &["a, a again", "b, b again", "c, c again"]);
    report.assert_calls::<pay>(6);
    let report = sim.crash_at_every_append(()).await;
    assert!(!report.in_doubt.is_empty(), "{report:?}");
}

#[tokio::test]
async fn two_crashes_are_no_worse_than_one() {
    let sim = || Sim::new::<parent>().stub::<pay>(Ok);
    let writes = sim().run(()).await.writes;
    for first in (1..=writes).step_by(3) {
        for second in (1..=writes).step_by(4) {
            let points = [CrashPoint::After(first), CrashPoint::Before(second)];
            let report = sim().crash(points[0]).crash(points[1]).run(()).await;
            let mut keys: Vec<_> = report.log.iter().map(|call| call.key.as_str()).collect();
            let calls = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), calls, "a body was called twice under one key: {points:?}");
            match &report.result {
                Ok(paid) => assert_eq!(paid, &["a, a again", "b, b again", "c, c again"], "{points:?}"),
                Err(RunError::Failed(failure)) => {
                    assert!(failure.to_string().contains("in doubt"), "{points:?}: {failure}");
                }
                Err(other) => panic!("{points:?}: {other}"),
            }
            assert!(matches!(report.verified, Some(Ok(_))), "{points:?}: {:?}", report.verified);
        }
    }
}

#[tokio::test]
async fn a_store_that_fails_for_a_while_loses_nothing() {
    let locked = StoreError::Locked { store: "disk".into(), reason: "busy".into() };
    let (for_claims, for_loads) = (locked.clone(), locked);
    let sim = Sim::new::<parent>().stub::<pay>(Ok);
    let sim =
        sim.wrap_store(move |store| Arc::new(FailingStore::new(store).claim_fails(3, for_claims.clone())));
    assert!(sim.run(()).await.result.is_ok());

    let sim = Sim::new::<asked>().stub::<pay_or_ask>(Ok);
    let sim =
        sim.wrap_store(move |store| Arc::new(FailingStore::new(store).load_fails(1, for_loads.clone())));
    let report = sim.run(()).await;
    assert_eq!(report.assert_completed(), "ann", "its handle waits until the store is back");
    report.assert_calls::<pay_or_ask>(1);
}
