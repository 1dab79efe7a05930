//! Budgets: what calls reserve, what comes back, what is refused, over branches, agents, child runs and generations.

mod kills;
mod meter;
mod time;

use std::sync::Arc;
use std::time::Duration;

use aether::StepError;
use aether::budget::{BudgetKind, OverBudget, Spend, Spent};
use aether::jiff::civil::date;
use aether::llm::{Models, Price, PriceTable};
use aether::prelude::*;
use aether::store::Store;
use aether::store::event::Event;

use self::meter::{Meter, ask};
use crate::seeds::kit::{Calls, Journal, Place, builder, in_time, run_id, stores};

/// What one question of `ask` reserves: 40 tokens of the answer, 8 for the frame, 10 for the question.
const RESERVED: u64 = 58;

async fn engine(store: &Arc<dyn Store>, meter: &Meter) -> Engine {
    let calls = Calls::default();
    builder(store, &calls).model(meter.clone()).start().await.unwrap()
}

/// Ask so often; how many answers there were, and the refusal that ended it.
#[workflow]
async fn asks(cx: &mut Cx, times: u32) -> Result<(u32, Option<OverBudget>)> {
    for answered in 0..times {
        match ask(cx).await {
            Ok(_) => {}
            Err(StepError::OverBudget(over)) => return Ok((answered, Some(over))),
            Err(other) => return Err(other.into()),
        }
    }
    Ok((times, None))
}

/// Ask within a budget of a part of the workflow.
#[workflow]
async fn within(cx: &mut Cx, tokens: u64) -> Result<(u32, Option<OverBudget>)> {
    asks(cx.budget(Budget::new().named("part").tokens(tokens)), 9).await
}

#[tokio::test]
async fn a_call_that_a_budget_does_not_allow_is_not_made_and_that_is_recorded() {
    for place in stores() {
        let (place, meter) = (place(), Meter::default());
        let engine = engine(&place.store, &meter).await;
        let run = engine.start::<within>(100).id("part").await.unwrap();
        // Each question reserves 58 and takes 20.
        let (answered, over) = in_time(run.result()).await.unwrap();
        assert_eq!((answered, meter.calls()), (3, 3));
        let over = over.unwrap();
        assert_eq!(over.to_string(), "not allowed by budget `part` of 100 tokens: 60 spent, and 58 needed");
        assert_eq!((over.kind, over.reserved), (BudgetKind::Tokens, 0));
        let used = engine.view(run.id()).await.unwrap().budgets();
        assert_eq!((used.len(), &*used[0].scope), (1, "0"));
        assert_eq!(
            (used[0].spent, used[0].reserved),
            (Spend { calls: 3, tokens: 60, cost_nanos: 0 }, Spend::default())
        );
        assert_eq!(used[0].budget.as_ref().unwrap().tokens, Some(100));
        engine.verify(run.id()).await.unwrap();
        assert_eq!(meter.calls(), 3, "a replay asks nothing");
        // What is recorded is readable as it stands.
        let text = serde_json::to_string(&Journal::read(&place.store, "part").await.events).unwrap();
        assert!(
            text.contains(r#""reserved":{"calls":1,"tokens":58,"in":["0"],"opens":[{"scope":"0","#),
            "{text}"
        );
        assert!(text.contains(r#""spent":{"calls":1,"tokens":20}"#), "{text}");
        assert!(
            text.contains(r#"{"over_budget":{"budget":"part","kind":"tokens","limit":100,"spent":60,"#),
            "{text}"
        );
    }
}

/// Two questions at the same time.
#[workflow]
async fn side_by_side(cx: &mut Cx) -> Result<u32> {
    let (one, other) =
        cx.join((async |cx: &mut Cx| asks(cx, 1).await, async |cx: &mut Cx| asks(cx, 1).await)).await;
    Ok(one?.0 + other?.0)
}

#[tokio::test]
async fn a_call_waits_for_what_others_have_only_reserved() {
    let (place, meter) = (Place::memory(), Meter::slow(Duration::from_millis(30)));
    let engine = engine(&place.store, &meter).await;
    // Room for one reservation beside what the other takes, and not for two.
    let run = engine.start::<side_by_side>(()).budget(Budget::new().tokens(RESERVED + 20)).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 2);
    assert_eq!((meter.calls(), meter.most_at_once()), (2, 1));
    let meter = Meter::slow(Duration::from_millis(30));
    let engine = self::engine(&Place::memory().store, &meter).await;
    let run = engine.start::<side_by_side>(()).budget(Budget::new().tokens(2 * RESERVED)).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 2);
    assert_eq!(meter.most_at_once(), 2, "there is room for both");
}

/// Pay, then ask; ask at the same time.
#[workflow]
async fn pays_first(cx: &mut Cx) -> Result<u32> {
    let (one, other) = cx
        .join((
            async |cx: &mut Cx| {
                paid(cx, 0).await?;
                asks(cx, 1).await
            },
            async |cx: &mut Cx| asks(cx, 1).await,
        ))
        .await;
    Ok(one?.0 + other?.0)
}

#[tokio::test]
async fn who_waits_for_a_question_that_a_crash_lost_is_told_when_it_may_not_be_asked_again() {
    for place in stores() {
        let (place, slow) = (place(), Meter::slow(Duration::from_secs(600)));
        let lease = Duration::from_millis(100);
        let start = async |store: &Arc<dyn Store>, meter: &Meter| {
            builder(store, &Calls::default()).model(meter.clone()).lease(lease).start().await.unwrap()
        };
        let engine = start(&place.store, &slow).await;
        let budget = Budget::new().tokens(RESERVED + 20);
        let run = engine.start::<pays_first>(()).id("lost").budget(budget).await.unwrap();
        in_time(async {
            // One question is out, and the other one waits for what it may leave.
            while slow.calls() < 1
                || Journal::read(&place.store, "lost").await.count("step_committed", "paid") < 1
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        drop((run, engine));
        let engine = start(&place.again(), &Meter::default()).await;
        let run = engine.handle::<pays_first>("lost").await.unwrap();
        // What the lost question reserved counts, so there is room for neither.
        assert_eq!(in_time(run.result()).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn an_answer_without_usage_counts_with_what_was_reserved() {
    let (place, meter) = (Place::memory(), Meter::default().silent());
    let engine = engine(&place.store, &meter).await;
    let run = engine.start::<within>(3 * RESERVED).id("silent").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap().0, 3);
    assert_eq!(engine.view(run.id()).await.unwrap().budgets()[0].spent.tokens, 3 * RESERVED);
}

/// Read something, which fails at first.
#[step(effect = "read", retry(max_retries = 5, delay = "1ms"))]
async fn unsteady(cx: &mut StepCx, fails: u32) -> Result<u32> {
    Calls::note(cx)?;
    if cx.attempt() < fails { Err(Failure::retryable("not yet")) } else { Ok(fails) }
}

/// Change something, and say what it took.
#[step(effect = "tool", compensate = unpaid)]
async fn paid(cx: &mut StepCx, tokens: u64) -> Result<u64> {
    Calls::note(cx)?;
    cx.spent(Spent { tokens: Some(tokens), ..Spent::default() });
    Ok(tokens)
}

/// Take it back.
#[step(effect = "tool")]
async fn unpaid(cx: &mut StepCx, tokens: u64, done: Option<u64>) -> Result<()> {
    let _ = (tokens, done);
    Calls::note(cx)
}

/// Nothing but work.
#[step(effect = "pure")]
async fn computed(n: u64) -> Result<u64> {
    Ok(n + 1)
}

/// Calls of every kind; the run fails where a budget ends it, and is undone.
#[workflow]
async fn kinds(cx: &mut Cx, fails: u32) -> Result<u64> {
    let tokens = paid(cx, 7).await?;
    unsteady(cx, fails).await?;
    let more = computed(cx, tokens).await?;
    Ok(paid(cx, more).await?)
}

#[tokio::test]
async fn every_attempt_that_goes_out_counts_and_undoing_is_free() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let engine = builder(&place.store, &calls).model(Meter::default()).start().await.unwrap();
        let four = || Budget::new().named("four").calls(4);
        let run = engine.start::<kinds>(1).id("fits").budget(four()).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 8);
        let used = engine.view(run.id()).await.unwrap().budgets();
        assert_eq!(used[0].spent, Spend { calls: 4, tokens: 15, cost_nanos: 0 });
        assert_eq!(calls.all(), 4);
        let run = engine.start::<kinds>(2).id("over").budget(four()).await.unwrap();
        let error = in_time(run.result()).await.unwrap_err().to_string();
        assert!(error.contains("not allowed by budget `four` of 4 calls: 4 spent, and 1 needed"), "{error}");
        assert_eq!((calls.of("paid"), calls.of("unsteady"), calls.of("unpaid")), (3, 5, 1));
        for run in ["fits", "over"] {
            engine.verify(&run_id(run)).await.unwrap();
        }
    }
}

/// A failure of a workflow tells the budget.
#[workflow]
async fn tells(cx: &mut Cx) -> Result<String> {
    match in_part(cx.budget(Budget::new().named("nothing").calls(0))).await {
        Ok(n) => Ok(n.to_string()),
        Err(failure) => {
            Ok(failure.over_budget().map_or_else(|| failure.to_string(), |over| over.budget.clone()))
        }
    }
}

#[workflow]
async fn in_part(cx: &mut Cx) -> Result<u32> {
    Ok(unsteady(cx, 0).await?)
}

#[tokio::test]
async fn a_failure_made_of_a_refusal_keeps_the_budget() {
    let (place, meter) = (Place::memory(), Meter::default());
    let engine = engine(&place.store, &meter).await;
    let run = engine.start::<tells>(()).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "nothing");
}

/// Ask as long as there is time.
#[workflow]
async fn timed(cx: &mut Cx, millis: u64) -> Result<(u32, Option<OverBudget>)> {
    asks(cx.budget(Budget::new().named("soon").time(Duration::from_millis(millis))), 9).await
}

#[tokio::test]
async fn time_cuts_a_question_off_and_begins_no_other() {
    for place in stores() {
        let (place, meter) = (place(), Meter::slow(Duration::from_secs(600)));
        let engine = engine(&place.store, &meter).await;
        let run = engine.start::<timed>(200).id("timed").await.unwrap();
        let (answered, over) = in_time(run.result()).await.unwrap();
        let over = over.unwrap();
        assert_eq!((answered, over.kind, over.limit, meter.calls()), (0, BudgetKind::Time, 200, 1));
        assert!(over.spent >= 200, "{over:?}");
        engine.verify(run.id()).await.unwrap();
    }
}

fn prices(currency: &str) -> PriceTable {
    PriceTable::new(currency, date(2026, 11, 1)).model("meter", Price::per_million(1_000_000, 1_000_000))
}

/// Ask within a budget of money: 0.0001 EUR, 100,000 nanos.
#[workflow]
async fn costs(cx: &mut Cx) -> Result<(u32, Option<OverBudget>)> {
    asks(cx.budget(Budget::new().named("purse").cost_nanos(100_000, "EUR")), 9).await
}

#[tokio::test]
async fn money_is_counted_by_the_table_of_prices_and_without_a_price_nothing_is_asked() {
    let table = |table: Option<PriceTable>| async move {
        let (place, meter) = (Place::memory(), Meter::default());
        let models = Models::new(meter.clone());
        let models = table.into_iter().fold(models, Models::prices);
        let engine = builder(&place.store, &Calls::default()).provide(models).start().await.unwrap();
        let run = engine.start::<costs>(()).await.unwrap();
        let (answered, over) = in_time(run.result()).await.unwrap();
        (answered, over.unwrap(), meter.calls())
    };
    // A token costs 1,000 nanos: a question reserves 58,000 and takes 20,000.
    let (answered, over, calls) = table(Some(prices("EUR"))).await;
    assert_eq!(
        (answered, calls, over.kind, over.spent, over.needed),
        (3, 3, BudgetKind::Cost, 60_000, Some(58_000))
    );
    for (given, why) in [
        (None, "no table of prices"),
        (Some(prices("USD")), "the table of prices in USD"),
        (Some(PriceTable::new("EUR", date(2026, 11, 1))), "the table of prices is empty"),
    ] {
        let (answered, over, calls) = table(given).await;
        assert_eq!((answered, calls, over.needed), (0, 0, None));
        assert!(over.to_string().contains(why), "{over}");
    }
}

/// Children that ask, side by side or one after the other.
#[workflow]
async fn family(cx: &mut Cx, each: Option<u64>) -> Result<Vec<u32>> {
    let children = async |cx: &mut Cx, _: u32| {
        let child = cx.child::<asks>(2);
        match each {
            Some(tokens) => child.budget(Budget::new().tokens(tokens)).await,
            None => child.await,
        }
    };
    let mut answers = Vec::new();
    for child in cx.each(0..2, children).await {
        answers.push(child?.0);
    }
    answers.push(asks(cx, 9).await?.0);
    Ok(answers)
}

#[tokio::test]
async fn a_child_is_granted_what_is_left_and_gives_back_the_rest() {
    for place in stores() {
        let (place, meter) = (place(), Meter::slow(Duration::from_millis(10)));
        let engine = engine(&place.store, &meter).await;
        // All of it: the second child waits for the end of the first. 200 - 4 * 20 leaves four questions more.
        let run = engine.start::<family>(None).id("all").budget(Budget::new().tokens(200)).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), [2, 2, 4]);
        assert_eq!(meter.most_at_once(), 1);
        // Parts: both at once, and the second question of each does not fit into its part.
        let run =
            engine.start::<family>(Some(70)).id("parts").budget(Budget::new().tokens(200)).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), [1, 1, 6]);
        let used = engine.view(run.id()).await.unwrap().budgets();
        assert_eq!((used[0].spent.tokens, used[0].reserved.tokens), (160, 0));
        for run in ["all", "parts"] {
            engine.verify(&run_id(run)).await.unwrap();
        }
    }
}

/// A child that is not waited for holds its part until its result is.
#[workflow]
async fn started(cx: &mut Cx) -> Result<(u32, u32)> {
    let child = cx.start_child::<asks>(1).await?;
    let before = asks(cx, 1).await?.0;
    child.result(cx).await?;
    Ok((before, asks(cx, 1).await?.0))
}

#[tokio::test]
async fn a_started_child_holds_what_it_was_granted_until_its_result_is_taken() {
    let (place, meter) = (Place::memory(), Meter::default());
    let engine = engine(&place.store, &meter).await;
    let run = engine.start::<started>(()).budget(Budget::new().tokens(200)).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), (0, 1));
    assert_eq!(engine.view(run.id()).await.unwrap().budgets()[0].spent.tokens, 40);
}

/// A lost race, and then another question.
#[workflow]
async fn raced(cx: &mut Cx) -> Result<(u32, Option<OverBudget>)> {
    cx.race((
        async |cx: &mut Cx| {
            cx.sleep(Duration::from_millis(20)).await;
        },
        async |cx: &mut Cx| {
            let _lost = ask(cx).await;
        },
    ))
    .await;
    asks(cx, 1).await
}

#[tokio::test]
async fn a_question_that_lost_a_race_took_what_it_had_reserved() {
    let (place, meter) = (Place::memory(), Meter::slow(Duration::from_secs(600)));
    let engine = engine(&place.store, &meter).await;
    let run = engine.start::<raced>(()).id("raced").budget(Budget::new().tokens(100)).await.unwrap();
    let over = in_time(run.result()).await.unwrap().1.unwrap();
    assert_eq!((over.spent, over.reserved), (RESERVED, 0));
    engine.verify(run.id()).await.unwrap();
}

/// Ask, and go on as a new generation.
#[workflow]
async fn generations(cx: &mut Cx, before: u32) -> Result<u32> {
    let answered = asks(cx, 2).await?.0;
    if answered == 2 {
        return cx.continue_as_new::<generations>(before + answered).await;
    }
    Ok(before + answered)
}

#[tokio::test]
async fn a_budget_of_a_run_goes_on_when_it_continues_as_new() {
    for place in stores() {
        let (place, meter) = (place(), Meter::default());
        let engine = engine(&place.store, &meter).await;
        let run = engine.start::<generations>(0).id("long").budget(Budget::new().tokens(170)).await.unwrap();
        assert_eq!((in_time(run.result()).await.unwrap(), meter.calls()), (6, 6));
        assert_eq!(engine.view(run.id()).await.unwrap().budgets()[0].spent.tokens, 120);
    }
}

/// An agent with a tool, within its own budget.
#[workflow]
async fn agent(cx: &mut Cx, tokens: u64) -> Result<String> {
    let agent = cx
        .agent("worker")
        .tools(paid::tool())
        .max_turns(3)
        .budget(Budget::new().named("agent").tokens(tokens));
    match agent.run("Work.").await {
        Ok(report) => Ok(report.answer),
        Err(error) => Ok(error.over_budget().map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

#[tokio::test]
async fn an_agent_ends_with_the_budget_or_the_number_of_turns_that_ended_it() {
    let (place, meter) = (Place::memory(), Meter::default().calling("paid", r#"{"tokens": 100}"#));
    let calls = Calls::default();
    let engine = builder(&place.store, &calls).model(meter.clone()).start().await.unwrap();
    let run = engine.start::<agent>(1_000_000).await.unwrap();
    assert_eq!(
        in_time(run.result()).await.unwrap(),
        "agent `worker` gave no answer within 3 turns (`max_turns`)"
    );
    assert_eq!(engine.view(run.id()).await.unwrap().budgets()[0].spent.tokens, 3 * 120);
    let run = engine.start::<agent>(4_400).await.unwrap();
    let ended = in_time(run.result()).await.unwrap();
    assert!(ended.starts_with("not allowed by budget `agent` of 4400 tokens: "), "{ended}");
}

#[tokio::test]
async fn a_repeated_start_and_old_journals_have_no_budget_of_their_own() {
    let journal =
        Journal::record_with::<side_by_side>("plain", (), |builder| builder.model(Meter::default())).await;
    let text = serde_json::to_string(&journal.events).unwrap();
    for field in [r#""reserved""#, r#""spent""#, r#""budget""#] {
        assert!(!text.contains(field), "{field}: {text}");
    }
    let created = |event: &Event| matches!(event, Event::RunCreated(e) if e.terms.budget.is_none());
    assert!(journal.events.iter().any(created));
}

/// Buy something, and say what it cost.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn buy(cx: &mut StepCx) -> Result<u32> {
    Calls::note(cx)?;
    if cx.dep::<Calls>()?.of("buy") == 1 {
        std::future::pending::<()>().await;
    }
    cx.spent(Spent { tokens: Some(40), ..Spent::default() });
    Ok(1)
}

/// Buy.
#[workflow]
async fn buys(cx: &mut Cx) -> Result<u32> {
    Ok(buy(cx).await?)
}

#[tokio::test]
async fn what_a_body_says_that_it_took_counts_also_when_it_was_called_again_by_another_worker() {
    for place in stores() {
        let (place, calls) = (place(), Calls::default());
        let start = async |store: &Arc<dyn Store>| builder(store, &calls).start().await.unwrap();
        let first = start(&place.store).await;
        let budget = Budget::new().tokens(100);
        first.start::<buys>(()).id("buys").budget(budget).await.unwrap();
        in_time(async {
            while calls.of("buy") == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        first.shutdown_within(Duration::ZERO).await.unwrap();
        let second = start(&place.store).await;
        let run = second.handle::<buys>("buys").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 1);
        let keys = calls.keys("buy");
        assert_eq!(keys, [keys[0].clone(), keys[0].clone()]);
        let used = second.view(run.id()).await.unwrap().budgets();
        assert_eq!(used[0].spent.tokens, 40, "{used:?}");
    }
}
