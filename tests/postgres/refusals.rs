//! A store that could not run the program's transaction steps is refused at the start.

use aether::error::BuildError;
use aether::prelude::*;

use super::kit::Bank;

/// Written for the other store.
#[step(effect = "transaction")]
pub(crate) async fn in_a_file(cx: &mut StepCx) -> Result<usize> {
    Ok(cx.sql(|db| db.execute("DELETE FROM notes", []))?)
}

#[tokio::test]
async fn a_store_that_could_not_run_a_step_is_refused() {
    let bank = Bank::new().await;
    let error = Engine::builder().postgres(bank.url()).provide(bank.calls.clone()).start().await.unwrap_err();
    let BuildError::NoTransactions { offers, steps, .. } = &error else { panic!("{error}") };
    assert_eq!(*offers, Some("cx.postgres"));
    let [step] = steps.as_slice() else { panic!("{error}") };
    assert!(step.step.ends_with("in_a_file") && step.uses == Some("cx.sql"), "{error}");
    let text = error.to_string();
    assert!(text.contains("refusals.rs:") && text.contains("use `.sqlite(path)` for `cx.sql`"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let error =
        Engine::builder().sqlite(folder.path().join("a.db")).provide(bank.calls.clone()).start().await;
    let Err(BuildError::NoTransactions { offers: Some("cx.sql"), steps, .. }) = error else {
        panic!("{error:?}")
    };
    assert!(steps.len() > 2 && steps.iter().all(|step| step.uses == Some("cx.postgres")), "{steps:?}");

    let error = Engine::builder().memory().provide(bank.calls.clone()).start().await;
    let Err(BuildError::NoTransactions { offers: None, steps, .. }) = error else { panic!("{error:?}") };
    assert!(steps.iter().any(|step| step.step.ends_with("elsewhere") && step.uses.is_none()), "{steps:?}");

    let client = Engine::builder().memory().allow_missing_deps().start().await.unwrap();
    client.shutdown().await.unwrap();
    bank.builder().start().await.unwrap().shutdown().await.unwrap();
}
