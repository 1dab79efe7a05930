//! The five tests that `docs/testing.md` compares with other libraries: an agent with stand-ins for its model and tools,
//! a timer of thirty days, a tool that fails twice, a crash in the middle, and a recorded run against changed code.

use std::time::Duration;

use aether::prelude::*;
use aether::recording::Recording;
use aether_testing::recordings::{RecordingFailure, verify_all};
use aether_testing::{Sim, call_tool, say};

/// Find an order.
#[step(effect = "read", retry(max_retries = 3, delay = "1s"))]
async fn find_order(_cx: &mut StepCx, id: u32) -> Result<u32> {
    Err(Failure::permanent(format_args!("the shop is not reachable from a test: order {id}")))
}

/// Pay an order back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn pay_back(_cx: &mut StepCx, cents: u32) -> Result<String> {
    Err(Failure::permanent(format_args!("the bank is not reachable from a test: {cents}")))
}

/// Let a model find the order and pay it back.
#[workflow]
async fn support(cx: &mut Cx, question: String) -> Result<String> {
    Ok(cx.agent("support").tools((find_order::tool(), pay_back::tool())).run(&question).await?.answer)
}

/// Pay an order back when thirty days have passed.
#[workflow]
async fn refund(cx: &mut Cx, id: u32) -> Result<String> {
    let cents = find_order(cx, id).await?;
    cx.sleep(Duration::from_secs(30 * 24 * 3600)).await;
    Ok(pay_back(cx, cents).await?)
}

#[aether::test(timeout = "10m")]
async fn an_agent_with_stand_ins_for_its_model_and_tools(sim: Sim<support>) {
    let sim = sim
        .conversation(
            "support",
            [call_tool::<find_order>(42), call_tool::<pay_back>(4200), say("You get 42.00 back.")],
        )
        .stub::<find_order>(|_| Ok(4200))
        .stub::<pay_back>(|cents| Ok(format!("paid {cents}")));
    let report = sim.run("Where is my money for order 42?".into()).await;
    assert_eq!(report.assert_completed(), "You get 42.00 back.");
    report.assert_called_with::<pay_back>(&[4200]);
}

fn answered(sim: Sim<refund>) -> Sim<refund> {
    sim.stub::<find_order>(|_| Ok(4200)).stub::<pay_back>(|cents| Ok(format!("paid {cents}")))
}

#[aether::test(timeout = "10m")]
async fn a_timer_of_thirty_days(sim: Sim<refund>) {
    let report = answered(sim).run(42).await;
    assert_eq!(report.assert_completed(), "paid 4200");
    report.assert_took(Duration::from_secs(30 * 24 * 3600));
}

#[aether::test(timeout = "10m")]
async fn a_tool_that_fails_twice_and_then_succeeds(sim: Sim<refund>) {
    let report = answered(sim).fail_times::<find_order>(2, Failure::new("busy")).run(42).await;
    assert_eq!(report.assert_completed(), "paid 4200");
    report.assert_calls::<find_order>(3);
}

#[aether::test(timeout = "10m")]
async fn a_crash_in_the_middle(sim: Sim<refund>) {
    let report = answered(sim).crash_at(5).run(42).await;
    assert_eq!((report.assert_completed().as_str(), report.crashes), ("paid 4200", 1));
    report.assert_calls::<find_order>(1);
}

/// The crash in the middle, wherever the middle is.
#[aether::test(timeout = "10m")]
async fn a_crash_at_every_write(sim: Sim<refund>) {
    let crashed = answered(sim).crash_at_every_append(42).await;
    assert!(crashed.writes > 5 && crashed.in_doubt.len() < crashed.same.len(), "{crashed:?}");
}

mod recorded {
    use aether::prelude::*;

    #[step(effect = "read")]
    pub(super) async fn price(_cx: &mut StepCx, item: &str) -> Result<usize> {
        Ok(item.len())
    }

    #[step(effect = "tool")]
    pub(super) async fn order(_cx: &mut StepCx, price: usize) -> Result<String> {
        Ok(format!("ordered for {price}"))
    }

    #[workflow]
    pub(super) async fn restock(cx: &mut Cx, item: String) -> Result<String> {
        let price = price(cx, &item).await?;
        Ok(order(cx, price).await?)
    }
}

/// The same calls in the same order, written otherwise.
mod tidied {
    use super::recorded::{order, price};
    use aether::prelude::*;

    #[workflow]
    pub(super) async fn restock(cx: &mut Cx, item: String) -> Result<String> {
        let limit = 1000;
        let asked = price(cx, &item).await?;
        let ordered = order(cx, asked.min(limit)).await?;
        Ok(ordered)
    }
}

/// One call more.
mod changed {
    use super::recorded::{order, price};
    use aether::prelude::*;

    #[workflow]
    pub(super) async fn restock(cx: &mut Cx, item: String) -> Result<String> {
        price(cx, "postage").await?;
        let price = price(cx, &item).await?;
        Ok(order(cx, price).await?)
    }
}

/// Exports a run of [`recorded::restock`] from a production engine, as if `module` had been its module: here both
/// versions of the code are in one program.
async fn production_run(module: &str) -> Recording {
    let engine = Engine::builder().memory().start().await.unwrap();
    let run = engine.start::<recorded::restock>("tea".to_owned()).id("restock-1").await.unwrap();
    run.result().await.unwrap();
    let text = engine.export(run.id()).await.unwrap().to_text();
    Recording::parse(&text.replace("side_by_side::recorded", &format!("side_by_side::{module}"))).unwrap()
}

#[tokio::test]
async fn a_recorded_run_against_changed_code() {
    let folder = tempfile::tempdir().unwrap();
    for module in ["tidied", "changed"] {
        let file = folder.path().join(module).with_extension("json");
        production_run(module).await.write(&file).unwrap();
    }
    let report = verify_all(&format!("{}/*.json", folder.path().display()));
    let failures: Vec<_> = report.failures().collect();
    let [(file, RecordingFailure::Diverged { recorded, today, .. })] = failures.as_slice() else {
        panic!("{report}")
    };
    assert!(file.ends_with("changed.json") && report.recorded() == 2, "{report}");
    assert!(recorded.contains("`0:price`") && today.contains("`0:price`"), "{report}");
}
