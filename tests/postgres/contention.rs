//! Transaction steps that other transactions are in the way of, again and again.

use std::time::Duration;

use aether::error::RunError;
use aether::prelude::*;
use aether::view::Status;

use super::kit::{Bank, Calls, in_time};

/// Writes a row that others are in the way of.
#[step(effect = "transaction")]
async fn contended(cx: &mut StepCx, text: String) -> Result<i64> {
    Calls::count(cx)?;
    cx.postgres(|db| db.execute("INSERT INTO notes(text) VALUES($1)", &[&text]))?;
    Ok(1)
}

/// Takes longer than the first twenty conflicts do.
#[step(effect = "tool")]
async fn patient_tool(cx: &mut StepCx) -> Result<i64> {
    let _ = cx;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    Ok(1)
}

#[workflow]
async fn contending(cx: &mut Cx, text: String) -> Result<i64> {
    // The tool first: what its run appends behind the transaction waits for that.
    let (told, written) = cx
        .join((async |cx: &mut Cx| patient_tool(cx).await, async |cx: &mut Cx| contended(cx, text).await))
        .await;
    Ok(written? + told?)
}

/// Looks at something for a while.
#[step(effect = "read")]
async fn brief_look(cx: &mut StepCx) -> Result<i64> {
    let _ = cx;
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(42)
}

/// Loses against a read that is faster.
#[workflow]
async fn contending_in_a_race(cx: &mut Cx) -> Result<i64> {
    cx.race((
        async |cx: &mut Cx| Ok(contended(cx, "never".into()).await?),
        async |cx: &mut Cx| Ok(brief_look(cx).await?),
    ))
    .await
}

/// A database in which others are in the way of the first 23 tries to write `now` or `later` (in the statement, or at the
/// commit), and of all tries to write `never`. A sequence counts them, because it is not rolled back.
async fn contested() -> Bank {
    let bank = Bank::new().await;
    bank.sql(
        "CREATE SEQUENCE tries;
         CREATE FUNCTION in_the_way() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('public.tries') <= 23 OR NEW.text = 'never' THEN
                 RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001';
             END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER at_once AFTER INSERT ON notes FOR EACH ROW WHEN (NEW.text = 'now')
             EXECUTE FUNCTION in_the_way();
         CREATE CONSTRAINT TRIGGER at_the_commit AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN (NEW.text <> 'now') EXECUTE FUNCTION in_the_way();",
    )
    .await;
    bank
}

#[tokio::test]
async fn a_body_is_called_again_for_as_long_as_others_are_in_the_way() {
    for text in ["now", "later"] {
        let bank = contested().await;
        let engine = bank.engine().await;
        let run = engine.start::<contending>(text.into()).id("r").await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 2, "{text}");
        assert_eq!((bank.calls.made(), bank.notes().await), (24, vec![text.to_owned()]));
        let view = engine.view(run.id()).await.unwrap();
        assert!(view.steps.len() == 2 && !view.steps.iter().any(|step| step.in_doubt), "{text}");
        engine.shutdown().await.unwrap();
    }
}

async fn until_contested(bank: &Bank, times: u32) {
    in_time(async {
        while bank.calls.made() < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_run_that_is_cancelled_waits_for_nobody_who_is_in_the_way() {
    for times in [1, 3, 21] {
        let bank = contested().await;
        let engine = bank.engine().await;
        let run = engine.start::<contending>("never".into()).id("r").await.unwrap();
        until_contested(&bank, times).await;
        engine.cancel(run.id(), "enough", "ann").await.unwrap();
        let ended = in_time(run.result()).await;
        assert!(matches!(ended, Err(RunError::Cancelled { .. })), "{ended:?}");
        let calls = bank.calls.made();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!((bank.calls.made(), bank.notes().await.len()), (calls, 0), "it is not called again");
        assert_eq!(engine.view(run.id()).await.unwrap().status, Status::Cancelled);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_race_is_decided_while_others_are_in_the_way_of_its_loser() {
    let bank = contested().await;
    let engine = bank.engine().await;
    let run = engine.start::<contending_in_a_race>(()).id("r").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 42);
    let calls = bank.calls.made();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((bank.calls.made(), bank.notes().await.len()), (calls, 0));
    let verified = engine.verify(run.id()).await.unwrap();
    assert_eq!(verified.recorded, verified.matched);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_shutdown_ends_a_body_that_others_are_in_the_way_of() {
    let bank = contested().await;
    let engine = bank.builder().start().await.unwrap();
    let run = engine.start::<contending>("never".into()).id("r").await.unwrap();
    until_contested(&bank, 3).await;
    let id = run.id().clone();
    let _over = in_time(engine.shutdown_within(Duration::from_millis(500))).await;
    let calls = bank.calls.made();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(bank.calls.made(), calls, "{id}: no body is called after a shutdown");
}
