//! Irreversible steps whose functions were moved or renamed: a call that was made before is known to be theirs.

use aether::prelude::*;

/// As it was.
mod shop {
    use super::*;

    /// Ship an order, once in the life of the store.
    #[step(effect = "tool", irreversible, scope = "store", key = |order| order)]
    pub(super) async fn ship(_cx: &mut StepCx, order: &str) -> Result<String> {
        Ok(format!("{order} is on its way"))
    }
}

/// As it is now.
mod logistics {
    use super::*;

    /// Ship an order, once in the life of the store.
    #[step(
        effect = "tool",
        irreversible,
        scope = "store",
        key = |order| order,
        of = "it::moved_steps::shop::ship"
    )]
    pub(super) async fn dispatch(_cx: &mut StepCx, order: &str) -> Result<String> {
        Ok(format!("{order} is dispatched"))
    }
}

/// Ship with the step as it was.
#[workflow]
async fn shipping(cx: &mut Cx, order: String) -> Result<String> {
    Ok(shop::ship(cx, &order).await?)
}

/// Ship with the step as it is now.
#[workflow]
async fn dispatching(cx: &mut Cx, order: String) -> Result<String> {
    match logistics::dispatch(cx, &order).await {
        Err(StepError::Taken(holder)) => Ok(format!("taken by {}", holder.run)),
        shipped => Ok(shipped?),
    }
}

#[tokio::test]
async fn a_step_that_says_what_it_was_has_its_business_keys() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let first = engine.start::<shipping>("7".into()).id("first").await.unwrap();
    assert_eq!(first.result().await.unwrap(), "7 is on its way");
    let again = engine.start::<dispatching>("7".into()).id("again").await.unwrap();
    assert_eq!(again.result().await.unwrap(), "taken by first");
    let other = engine.start::<dispatching>("8".into()).id("other").await.unwrap();
    assert_eq!(other.result().await.unwrap(), "8 is dispatched");
    let view = engine.view(other.id()).await.unwrap();
    assert_eq!(view.steps[0].command.to_string(), "0:ship");
}
