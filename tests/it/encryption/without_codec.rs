//! Programs without the codec: they read nothing of encoded runs, say nothing to them in the open, and know that they wait.

use aether::encryption::{CodecError, Encryption};
use aether::error::SendError;
use aether::id::RunId;
use aether::people::Waiting;
use aether::prelude::*;
use aether::store::{StoreError, WaitFilter};

use super::{ring, say};
use crate::seeds::kit::{Calls, Place, builder, in_time, run_id};

/// Pay somebody.
#[step(effect = "tool", irreversible, approval = "required")]
async fn without_pay(cx: &mut StepCx, to: String) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("paid {to}"))
}

/// Pays somebody whom a person agrees to.
#[workflow]
async fn without_asks(cx: &mut Cx, to: String) -> Result<String> {
    Ok(without_pay(cx, to).await?)
}

async fn waits(engine: &Engine, run: &RunId) {
    in_time(async {
        while engine.pending(run).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

fn is_open<T: std::fmt::Debug>(result: std::result::Result<T, SendError>) -> bool {
    let told = format!("{result:?}");
    match result {
        Err(SendError::Store(StoreError::Codec { error: CodecError::WouldBeOpen { key }, .. })) => {
            key == "key 1"
        }
        _ => panic!("{told}"),
    }
}

#[tokio::test]
async fn who_has_no_codec_writes_nothing_in_the_open_and_is_told_that_runs_wait() {
    let (place, calls) = (Place::memory(), Calls::default());
    let engine = builder(&place.store, &calls).payload_codec(Encryption::new(ring(1))).start().await.unwrap();
    let run = engine.start::<without_asks>("ann".to_owned()).id("asks").await.unwrap();
    waits(&engine, run.id()).await;

    let client = builder(&place.again(), &calls).client().start().await.unwrap();
    assert!(is_open(say(&client, run.id(), "word", &"4111").await));
    assert!(is_open(client.cancel(run.id(), "of ann's", "desk").await));
    assert!(is_open(client.terminate(run.id(), "of ann's", "desk").await));
    assert!(client.approve(run.id(), "without_pay", "desk").await.is_err(), "it cannot even be found");
    assert!(place.store.inbox(run.id(), 0).await.unwrap().is_empty());

    let page = client.all_pending(WaitFilter::for_reply()).await.unwrap();
    assert!(page.waits.is_empty());
    let [wait] = &*page.unreadable else { panic!("{page:?}") };
    assert_eq!((&wait.run, wait.waiting), (run.id(), Some(Waiting::Approval)));
    assert!(wait.error.to_string().contains("key 1"), "{}", wait.error);
    let timers = client.all_pending(WaitFilter::default().kind(Waiting::Timer)).await.unwrap();
    assert!(timers.unreadable.is_empty());

    client.shutdown().await.unwrap();

    let page = engine.all_pending(WaitFilter::for_reply()).await.unwrap();
    assert_eq!((page.waits.len(), page.unreadable.len()), (1, 0));
    engine.approve(run.id(), "without_pay", "desk").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "paid ann");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn who_has_no_codec_imports_nothing_where_the_program_encodes() {
    let calls = Calls::default();
    let (open, coded) = (Place::memory(), Place::memory());
    let engine = builder(&open.store, &calls).start().await.unwrap();
    let run = engine.start::<without_asks>("ann".to_owned()).id("recorded").await.unwrap();
    waits(&engine, run.id()).await;
    let recording = engine.export(run.id()).await.unwrap();
    drop(run);
    engine.shutdown().await.unwrap();

    let engine = builder(&coded.store, &calls).payload_codec(Encryption::new(ring(1))).start().await.unwrap();
    let other = engine.start::<without_asks>("bob".to_owned()).id("other").await.unwrap();
    let client = builder(&coded.again(), &calls).client().start().await.unwrap();
    let refused = client.import(&recording).await.unwrap_err().to_string();
    assert!(refused.contains("would stand in the open") && refused.contains("key 1"), "{refused}");
    assert!(coded.store.run(&run_id("recorded")).await.unwrap().is_none());
    client.shutdown().await.unwrap();
    // With the codec it is imported, and encoded.
    engine.import(&recording).await.unwrap();
    let frames = coded.store.load(&run_id("recorded"), 0).await.unwrap();
    assert!(frames[0].text.contains("\"key\":\"key 1\""), "{}", frames[0].text);
    drop(other);
    engine.shutdown().await.unwrap();
}
