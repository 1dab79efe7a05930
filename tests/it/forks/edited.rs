//! Forks that keep a call whose arguments a person had edited.

use std::sync::{Arc, Mutex};

use aether::error::RunError;
use aether::prelude::*;
use aether::store::Store;
use aether::store::event::Event;

use super::{bill, command, journal};
use crate::seeds::kit::{Calls, builder, in_time, run_id, stores, until_waiting};

/// What was charged, and what was paid back.
#[derive(Clone, Debug, Default)]
struct Till(Arc<Mutex<Vec<String>>>);

impl Till {
    fn note(cx: &StepCx, what: String) -> Result<()> {
        Calls::note(cx)?;
        cx.dep::<Self>()?.0.lock().unwrap().push(what);
        Ok(())
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Charge a customer, if somebody agrees.
#[step(effect = "tool", approval = "required", compensate = pay_back)]
async fn charge_agreed(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Till::note(cx, format!("charged {cents}"))?;
    Ok(cents + 1)
}

/// Give the money back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn pay_back(cx: &mut StepCx, cents: u32, charged: Option<u32>) -> Result<()> {
    Till::note(cx, format!("paid back {cents} of {charged:?}"))
}

/// Charge, and hear whether there is anything to deliver.
#[workflow]
async fn agreed_sale(cx: &mut Cx, cents: u32) -> Result<u32> {
    let charged = charge_agreed(cx, cents).await?;
    let is_there: bool = cx.signal("stock").await?;
    if is_there { Ok(charged) } else { Err(Failure::permanent("out of stock")) }
}

/// Also where a fork keeps what its own origin had kept, and where another process undoes it.
#[tokio::test]
async fn a_kept_call_is_undone_with_the_arguments_that_a_person_had_edited() {
    for (place, kept_twice) in stores().into_iter().zip([false, true, true]) {
        let place = place();
        let (calls, till) = (Calls::default(), Till::default());
        let engine = builder(&place.store, &calls).provide(till.clone()).start().await.unwrap();
        let run = engine.start::<agreed_sale>(500).id("sale").await.unwrap();
        until_waiting(&run).await;
        let edited = serde_json::json!({ "cents": 200 });
        engine.approve_with(run.id(), &command("0:charge_agreed"), &edited, "ann").await.unwrap();
        let mut last = "sale".to_owned();
        for fork in ["first", "second"].into_iter().take(1 + usize::from(kept_twice)) {
            let origin = engine.handle::<agreed_sale>(&last).await.unwrap();
            until_charged(&place.store, &last).await;
            until_waiting(&origin).await;
            let plan = engine.fork(origin.id()).from_start().plan().await.unwrap();
            assert_eq!(bill(&plan), ["0:charge_agreed done"]);
            let (args, undo) =
                (plan.calls()[0].args.as_ref().unwrap(), plan.calls()[0].undo.as_ref().unwrap());
            assert!(undo.1.as_str().contains("200"), "{undo:?}");
            assert_eq!(args.as_str().contains("200"), last == "sale", "{args:?}");
            plan.end_origin("again").keep("0:charge_agreed").id(fork).start("ada").await.unwrap();
            last = fork.to_owned();
        }
        assert_eq!(till.taken(), ["charged 200"]);
        engine.shutdown().await.unwrap();
        let engine = builder(&place.again(), &calls).provide(till.clone()).start().await.unwrap();
        engine.signal(&run_id(&last), "stock", "none", &false).await.unwrap();
        let ended = in_time(engine.handle::<agreed_sale>(&last).await.unwrap().result()).await;
        assert!(matches!(ended, Err(RunError::Failed(_))), "{ended:?}");
        assert_eq!(till.taken(), ["paid back 200 of Some(201)"]);
        let verified = engine.verify(&run_id(&last)).await.unwrap();
        assert_eq!(verified.recorded, verified.matched);
    }
}

async fn until_charged(store: &Arc<dyn Store>, run: &str) {
    let is_charged = |event: &Event| matches!(event, Event::CommandCommitted(_));
    while !journal(store, run).await.iter().any(is_charged) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
