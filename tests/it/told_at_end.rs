//! Words from outside that were acknowledged before their run is ended: they count, although no code takes them any more.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::effect::Payload;
use aether::engine::EngineBuilder;
use aether::id::InvocationId;
use aether::people::Resolution;
use aether::prelude::*;
use aether::store::Sent;
use aether::store::ledger::LedgerStatus;
use aether::view::{RunView, Status};

use crate::seeds::kit::{Calls, Journal, Place, builder, in_time, run_id, stores, until_waiting};

/// The newest token that a body gave away.
#[derive(Clone, Debug, Default)]
struct Token(Arc<Mutex<String>>);

/// Have a card charged elsewhere.
#[step(effect = "tool", compensate = refund)]
async fn charge(cx: &mut StepCx, cents: u32) -> Result<u32> {
    let _ = cents;
    Calls::note(cx)?;
    let callback = cx.callback()?;
    callback.token().clone_into(&mut *cx.dep::<Token>()?.0.lock().unwrap());
    Err(callback.pending().into())
}

/// Transfer money; the line is cut meanwhile.
#[step(effect = "tool", on_unknown = "ask", compensate = refund)]
async fn transfer(cx: &mut StepCx, cents: u32) -> Result<u32> {
    let _ = cents;
    Calls::note(cx)?;
    Err(Failure::unknown("the line was cut"))
}

/// Give it back.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn refund(cx: &mut StepCx, cents: u32, charged: Option<u32>) -> Result<()> {
    assert_eq!(charged, Some(cents));
    Calls::note(cx)
}

/// Charge a card.
#[workflow]
async fn buy_on_word(cx: &mut Cx, cents: u32) -> Result<u32> {
    Ok(charge(cx, cents).await?)
}

/// Transfer money.
#[workflow]
async fn remit(cx: &mut Cx, cents: u32) -> Result<u32> {
    Ok(transfer(cx, cents).await?)
}

/// What the tests share: a store, calls, and the token.
struct Shop {
    place: Place,
    calls: Calls,
    token: Token,
}

impl Shop {
    fn in_each_store() -> impl Iterator<Item = Self> {
        stores().into_iter().map(|place| Self {
            place: place(),
            calls: Calls::default(),
            token: Token::default(),
        })
    }

    fn builder(&self) -> EngineBuilder {
        let grace = Duration::from_millis(5);
        builder(&self.place.store, &self.calls).provide(self.token.clone()).eviction_grace(grace)
    }

    /// An engine that advances nothing.
    async fn client(&self) -> Engine {
        self.builder().client().start().await.unwrap()
    }

    /// Starts the run, and leaves it once it only waits.
    async fn leave_waiting<W: aether::definition::Workflow<Input = u32>>(&self) {
        let engine = self.builder().start().await.unwrap();
        let run = engine.start::<W>(100).id("order").await.unwrap();
        in_time(until_waiting(&run)).await;
        engine.shutdown().await.unwrap();
    }

    fn token(&self) -> String {
        self.token.0.lock().unwrap().clone()
    }

    /// The run, once an engine has obeyed the request to cancel it.
    async fn cancelled(&self, client: Engine) -> (Engine, RunView) {
        client.cancel(&run_id("order"), "not wanted", "ann").await.unwrap();
        client.shutdown().await.unwrap();
        let engine = self.builder().start().await.unwrap();
        let view = in_time(async {
            loop {
                let view = engine.view(&run_id("order")).await.unwrap();
                if view.status.is_terminal() {
                    return view;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert_eq!(view.status, Status::Cancelled);
        (engine, view)
    }
}

#[tokio::test]
async fn a_report_counts_that_came_before_its_run_was_cancelled() {
    for shop in Shop::in_each_store() {
        shop.leave_waiting::<buy_on_word>().await;
        let client = shop.client().await;
        assert_eq!(client.complete_callback(&shop.token(), &100).await.unwrap(), Sent::Delivered);
        let (engine, view) = shop.cancelled(client).await;
        assert_eq!((shop.calls.of("charge"), shop.calls.of("refund")), (1, 1));
        assert!(view.in_doubt().is_empty() && view.uncompensated.is_empty(), "{view:?}");
        let journal = Journal::read(&shop.place.store, "order").await;
        let told = [
            "callback_received",
            "tool_invocation_finished",
            "compensation_recorded",
            "command_committed",
            "node_finished",
            "step_committed",
        ];
        assert_eq!(journal.kinds_of("charge")[3..], told);
        let rows = engine.ledger(&run_id("order")).await.unwrap();
        assert!(rows.iter().all(|row| row.committed && row.status == LedgerStatus::Succeeded), "{rows:?}");
        assert!(shop.place.store.inbox(&run_id("order"), 0).await.unwrap().is_empty());
        engine.verify(&run_id("order")).await.unwrap();
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_reported_failure_counts_that_came_before_its_run_was_cancelled() {
    for shop in Shop::in_each_store() {
        shop.leave_waiting::<buy_on_word>().await;
        let client = shop.client().await;
        let declined = Failure::permanent("declined");
        assert_eq!(client.fail_callback(&shop.token(), &declined).await.unwrap(), Sent::Delivered);
        let (engine, view) = shop.cancelled(client).await;
        assert_eq!((shop.calls.of("charge"), shop.calls.of("refund")), (1, 0));
        assert!(view.in_doubt().is_empty() && view.uncompensated.is_empty(), "{view:?}");
        let journal = Journal::read(&shop.place.store, "order").await;
        assert_eq!(journal.count("invocation_abandoned", "charge"), 0);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn what_an_operator_says_counts_that_was_said_before_the_run_was_cancelled() {
    let happened = Resolution::Happened(Payload::encode(&100).unwrap());
    for (resolution, refunds) in [(happened, 1), (Resolution::DidNotHappen, 0)] {
        for shop in Shop::in_each_store() {
            shop.leave_waiting::<remit>().await;
            let client = shop.client().await;
            let open = client.pending(&run_id("order")).await.unwrap();
            let invocation: InvocationId = open[0].invocation.clone().unwrap();
            client.resolve(&run_id("order"), &invocation, resolution.clone(), "bob").await.unwrap();
            let (engine, view) = shop.cancelled(client).await;
            assert_eq!((shop.calls.of("transfer"), shop.calls.of("refund")), (1, refunds));
            assert!(view.in_doubt().is_empty() && view.uncompensated.is_empty(), "{view:?}");
            let rows = engine.ledger(&run_id("order")).await.unwrap();
            assert!(rows.iter().all(|row| row.committed), "{rows:?}");
            engine.shutdown().await.unwrap();
        }
    }
}

/// Have a document made elsewhere.
#[step(effect = "tool")]
async fn have_made(cx: &mut StepCx, pages: u32) -> Result<String> {
    let _ = pages;
    Calls::note(cx)?;
    let callback = cx.callback()?;
    callback.token().clone_into(&mut *cx.dep::<Token>()?.0.lock().unwrap());
    Err(callback.pending().into())
}

/// Have a document made.
#[workflow]
async fn order_on_word(cx: &mut Cx, pages: u32) -> Result<String> {
    Ok(have_made(cx, pages).await?)
}

#[tokio::test]
async fn a_large_report_that_counts_at_the_end_is_stored_once() {
    for shop in Shop::in_each_store() {
        shop.leave_waiting::<order_on_word>().await;
        let client = shop.client().await;
        let document = "x".repeat(100_000);
        assert_eq!(client.complete_callback(&shop.token(), &document).await.unwrap(), Sent::Delivered);
        let (engine, view) = shop.cancelled(client).await;
        assert!(view.in_doubt().is_empty(), "{view:?}");
        let rows = shop.place.store.entries(&run_id("order")).await.unwrap();
        assert_eq!((rows.len(), rows[0].status), (1, LedgerStatus::Succeeded));
        assert!(rows[0].committed && rows[0].result.is_none(), "the row has {:?}", rows[0].result);
        // Who reads the ledger finds it all the same.
        let read = engine.ledger(&run_id("order")).await.unwrap();
        let value: String = read[0].result.as_ref().unwrap().decode().unwrap();
        assert_eq!(value, document);
        engine.verify(&run_id("order")).await.unwrap();
        engine.shutdown().await.unwrap();
    }
}
