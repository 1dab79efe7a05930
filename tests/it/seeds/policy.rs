//! The replay policy: rows 56 and 62 of the seeds.

use aether::effect::EffectClass;
use aether::engine::{Consulted, ReplayPolicy, Verdict};
use aether::error::{Fault, RunError};

use super::chain::{recorded, result_of, seed_chain};
use super::everything::{Outside, seed_everything};
use super::kit::{Calls, Journal, Place, Rows, builder, in_time, resume, stores};

/// Says the same about every command of one class, and counts.
#[derive(Debug)]
struct Says {
    class: Option<EffectClass>,
    verdict: Verdict,
    calls: Calls,
}

impl ReplayPolicy for Says {
    fn consult(&self, consulted: &Consulted<'_>) -> Verdict {
        let about = format!("{} {}", consulted.recorded, self.calls.of(consulted.command.name()));
        self.calls.add("consulted", &about);
        match self.class {
            Some(class) if class != consulted.class => Verdict::Default,
            _ => self.verdict.clone(),
        }
    }
}

/// The recorded chain on an engine with this policy.
async fn under(
    policy: (Option<EffectClass>, Verdict),
    journal: &Journal,
    place: &Place,
) -> (Calls, std::result::Result<Vec<aether::effect::Payload>, RunError>) {
    let (calls, (class, verdict)) = (Calls::default(), policy);
    journal.plant(&place.store, Rows::Follow).await;
    let says = Says { class, verdict, calls: calls.clone() };
    let engine = builder(&place.store, &calls).policy(says).start().await.unwrap();
    let run = engine.handle::<seed_chain>("chain").await.unwrap();
    (calls, in_time(run.result()).await)
}

#[tokio::test]
async fn s056_the_replay_policy_is_asked_first_and_may_forbid() {
    let whole = recorded().await;
    for place in stores() {
        // Asked before every command, in the child as well, and before its body.
        let (calls, result) = under((None, Verdict::Default), &whole.first(1), &place()).await;
        assert_eq!(
            (result.unwrap(), calls.keys("consulted")),
            (result_of(&whole), vec!["false 0".to_owned(); 7])
        );
        // Recorded results are injected.
        let (calls, result) = under((None, Verdict::Inject), &whole.open(), &place()).await;
        assert_eq!(result.unwrap(), result_of(&whole));
        assert_eq!((calls.of("act"), calls.keys("consulted")), (0, vec!["true 0".to_owned(); 6]));
        // A policy may forbid what is recorded, and what is not.
        for journal in [whole.open(), whole.first(1)] {
            let no = Verdict::Forbid("no tools today".into());
            let (calls, result) = under((Some(EffectClass::Tool), no), &journal, &place()).await;
            let Err(RunError::Stopped { fault, .. }) = result else { panic!("{result:?}") };
            let Fault::Forbidden { run, command, reason } = *fault else { panic!("{fault:?}") };
            assert_eq!((run.as_str(), command.as_str(), &*reason), ("chain", "1:act", "no tools today"));
            assert_eq!(calls.of("act"), 0);
        }
        // What must be recorded and is not stops the run.
        let (calls, result) = under((None, Verdict::Inject), &whole.first(1), &place()).await;
        assert!(
            matches!(&result, Err(RunError::Stopped { fault, .. }) if matches!(**fault, Fault::Unrecorded { .. })),
            "{result:?}"
        );
        assert_eq!(calls.of("look"), 0);
        // No policy is the default one.
        let (place, calls) = (place(), Calls::default());
        whole.through("step_committed", "act").plant(&place.store, Rows::Follow).await;
        let (_engine, result) = resume::<seed_chain>(&place.store, "chain", &calls).await;
        assert_eq!((result.unwrap(), calls.of("act"), calls.of("think")), (result_of(&whole), 0, 1));
    }
}

#[tokio::test]
async fn s062_without_the_matchers_skip_the_effect_gate_still_calls_nothing() {
    let whole = recorded().await;
    for place in stores() {
        let (calls, result) = under((None, Verdict::Execute), &whole.open(), &place()).await;
        assert_eq!(result.unwrap(), result_of(&whole));
        assert_eq!(calls.all(), calls.of("consulted"), "no body was called");

        let (first, outside) = (Place::memory(), Outside::new().await);
        let (_engine, original, journal) = outside.run(&first).await;
        let (before, again) = (outside.contacts().await, place());
        journal.open().plant(&again.store, Rows::Follow).await;
        let (class, verdict, calls) = (None, Verdict::Execute, Calls::default());
        let poll = std::time::Duration::from_millis(10);
        let engine = outside.builder(&again).poll_interval(poll).policy(Says { class, verdict, calls });
        let engine = engine.start().await.unwrap();
        let run = engine.handle::<seed_everything>("all").await.unwrap();
        assert_eq!((in_time(run.result()).await.unwrap(), outside.contacts().await), (original, before));
    }
}
