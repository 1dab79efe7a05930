//! The sweep over the research example fails, and says how to see it again, when a rule is broken on purpose. Rules that
//! no store can break are broken by `scripts/mutants-by-hand`.

use std::sync::Arc;

use aether_testing::{SimError, mutants};

use crate::research::{Bench, bench};

#[tokio::test]
async fn a_body_before_its_durable_intent_is_noticed() {
    let Bench { sim, brief, .. } = &bench().await;
    let sim = sim.clone().front_store(|store, _| mutants::eager(store));
    let error = sim.try_crash_at_every_boundary(brief.clone()).await.unwrap_err();
    let SimError::Crash { broken, reproduce, .. } = &error else { panic!("{error}") };
    assert!(broken.contains("was called 2 times"), "{error}");
    let test = "mutants::a_body_before_its_durable_intent_is_noticed";
    assert!(reproduce.starts_with("AETHER_CRASH_AT=") && reproduce.ends_with(test), "{reproduce}");
}

#[tokio::test]
async fn an_outcome_in_two_appends_is_noticed() {
    let Bench { sim, brief, .. } = &bench().await;
    let sim = sim.clone().front_store(|store, _| mutants::torn(store));
    let error = sim.try_crash_at_every_boundary(brief.clone()).await.unwrap_err().to_string();
    assert!(error.contains("was not appended whole"), "{error}");
    assert!(error.contains("cargo test mutants::an_outcome_in_two_appends_is_noticed"), "{error}");
}

#[tokio::test]
async fn an_append_of_a_stale_owner_is_noticed() {
    let Bench { sim, brief, .. } = &bench().await;
    let sim = sim.clone().wrap_store(mutants::unfenced);
    let error = sim.try_crash_at_every_boundary(brief.clone()).await.unwrap_err();
    let SimError::Crash { broken, reproduce, .. } = &error else { panic!("{error}") };
    assert!(broken.contains("had lost the run to another one took effect"), "{error}");
    assert!(reproduce.starts_with("AETHER_CRASH_AT=stalled-write-"), "{reproduce}");
}

#[tokio::test]
async fn a_store_that_breaks_nothing_is_not_blamed() {
    let Bench { sim, brief, .. } = &bench().await;
    let sim = sim.clone().front_store(|store, _| Arc::clone(&store));
    let report = sim.crash_at_every_boundary(brief.clone()).await;
    assert_eq!(report.crashes(), report.boundaries.len());
}
