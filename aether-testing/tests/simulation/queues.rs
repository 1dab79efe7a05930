//! Runs of queues in virtual time.

use std::time::Duration;

use aether::error::RunError;
use aether::prelude::*;
use aether::queue::{Limit, LimitKind};
use aether_testing::Sim;

use super::DAY;

/// Look something up.
#[step(effect = "read")]
async fn look_up(_cx: &mut StepCx, word: String) -> Result<String> {
    super::not_stubbed(word)
}

/// Sort a ticket.
#[workflow]
async fn queued_ticket(cx: &mut Cx, word: String) -> Result<String> {
    cx.sleep(Duration::from_secs(3_600)).await;
    Ok(look_up(cx, word).await?)
}

/// Wait for the evening.
#[workflow]
async fn office_day(cx: &mut Cx) -> Result<()> {
    cx.sleep(DAY).await;
    Ok(())
}

#[tokio::test]
async fn runs_of_queues_get_their_turns_in_virtual_time() {
    let minute = Duration::from_secs(60);
    let sim = Sim::new::<office_day>().stub::<look_up>(|word| Ok(word.to_uppercase()));
    let sim = sim.meanwhile(move |live| async move {
        let engine = live.engine();
        let limits = engine.limits();
        limits.set(Limit::new("tickets", LimitKind::Starts { n: 1, per: minute }).unwrap()).await.unwrap();
        limits.set(Limit::new("tickets", LimitKind::Running(1)).unwrap()).await.unwrap();
        let mut runs = Vec::new();
        for word in ["a", "b", "c"] {
            let start = engine.start::<queued_ticket>(word.into()).id(word).queue("tickets").key(word);
            runs.push(start.await.unwrap());
        }
        let late = engine.start::<queued_ticket>("late".into()).id("late").queue("tickets").key("d");
        let late = late.expires(minute * 2).await.unwrap();
        assert!(matches!(late.result().await, Err(RunError::Expired { .. })));
        let mut began = Vec::new();
        for run in runs {
            assert_eq!(run.result().await.unwrap(), run.id().as_str().to_uppercase());
            began.push(engine.store().run(run.id()).await.unwrap().unwrap().queue.started_at.unwrap());
        }
        began.sort();
        // A minute apart, though each of them waits for an hour: who waits has no slot.
        for (before, after) in began.iter().zip(&began[1..]) {
            let apart = Duration::try_from(after.duration_since(*before)).unwrap();
            assert!((minute..minute * 2).contains(&apart), "{began:?}");
        }
    });
    let report = sim.run(()).await;
    report.assert_completed();
    report.assert_took(DAY);
}
