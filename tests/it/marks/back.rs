//! A mark that is deployed, taken back before anything rests on it, and deployed again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether::engine::RunEnd;
use aether::prelude::*;

use super::deploys::marked;
use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, created, in_time};

/// Whether the new price is known.
#[derive(Clone, Debug, Default)]
struct Known(Arc<AtomicBool>);

/// The price of the list.
#[step(effect = "read")]
async fn list_price(cx: &mut StepCx, item: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(item)
}

/// The price that was agreed; it takes for ever where it is not known.
#[step(effect = "read")]
async fn agreed_price(cx: &mut StepCx, item: u32) -> Result<u32> {
    Calls::note(cx)?;
    if cx.dep::<Known>()?.0.load(Ordering::SeqCst) { Ok(item / 2) } else { std::future::pending().await }
}

/// What is in stock.
#[step(effect = "read")]
async fn in_stock(cx: &mut StepCx, item: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(item)
}

macro_rules! build {
    ($module:ident, $cx:ident, $item:ident, $price:expr) => {
        #[allow(dead_code, reason = "a build is found by its name in a journal, and not called")]
        mod $module {
            use super::*;

            #[workflow]
            pub(super) async fn priced($cx: &mut Cx, $item: u32) -> Result<u32> {
                let (price, stock) = $cx
                    .join((
                        async |$cx: &mut Cx| $price,
                        async |$cx: &mut Cx| {
                            $cx.now().await;
                            in_stock($cx, $item).await
                        },
                    ))
                    .await;
                stock?;
                let more: u32 = $cx.signal("more").await?;
                Ok(price? + more)
            }
        }
    };
}

build!(plain, cx, item, list_price(cx, item).await);
build!(added, cx, item, {
    match cx.version("agreed", 1..=2).await {
        1 => list_price(cx, item).await,
        _ => agreed_price(cx, item).await,
    }
});

/// A build resumes the run, until the condition holds; the journal as it is then.
async fn until(
    journal: &Journal,
    build: &str,
    known: bool,
    done: impl Fn(&Journal, &Calls) -> bool,
) -> Journal {
    let (place, calls) = (Place::memory(), Calls::default());
    journal.in_module(&format!("{}::{build}", module_path!())).plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &calls).provide(Known(Arc::new(known.into()))).start().await.unwrap();
    let read = in_time(async {
        loop {
            let read = Journal::read(&place.store, &journal.run).await;
            if done(&read, &calls) {
                return read;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let read = read.await;
    engine.shutdown_within(Duration::ZERO).await.unwrap();
    read
}

async fn ended(journal: &Journal, build: &str) -> (RunEnd, Journal) {
    let (place, calls) = (Place::memory(), Calls::default());
    journal.in_module(&format!("{}::{build}", module_path!())).plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &calls).provide(Known(Arc::new(true.into()))).start().await.unwrap();
    let run = engine.find(journal.run.as_str()).await.unwrap();
    engine.signal(run.id(), "more", "1", &1_u32).await.unwrap();
    let end = in_time(run.end()).await.unwrap();
    if !matches!(end, RunEnd::Stopped(_)) {
        engine.verify(&run.id().clone()).await.unwrap();
    }
    engine.shutdown().await.unwrap();
    (end, Journal::read(&place.store, &journal.run).await)
}

#[tokio::test]
async fn a_mark_on_which_nothing_rests_does_not_bind_the_run() {
    let begun = Journal { run: "priced".into(), events: vec![created("priced", r#"{"item":8}"#)] };
    // The other branch has come to its end meanwhile.
    let stocked = |journal: &Journal| journal.count("command_committed", "in_stock") == 1;
    let waits = |journal: &Journal| stocked(journal) && journal.count("wait_started", "signal") == 1;
    let cut_off =
        until(&begun, "added", false, |journal, calls| stocked(journal) && calls.of("agreed_price") == 1);
    let cut_off = cut_off.await;
    assert_eq!(marked(&cut_off).len(), 0);
    // Deployed without going back, it takes the new path.
    let (end, journal) = ended(&cut_off, "added").await;
    assert!(matches!(&end, RunEnd::Completed(value) if value.as_str() == "5"), "{end:?}");
    assert_eq!(marked(&journal), [("agreed".to_owned(), 2)].into());
    // Back, and there again.
    let back = until(&cut_off, "plain", true, |journal, _| waits(journal)).await;
    assert_eq!(back.count("command_committed", "list_price"), 1);
    let (end, _) = ended(&back, "added").await;
    assert!(matches!(&end, RunEnd::Completed(value) if value.as_str() == "9"), "{end:?}");
}

#[tokio::test]
async fn the_record_of_a_mark_is_in_one_append_with_what_rests_on_it() {
    let begun = Journal { run: "priced".into(), events: vec![created("priced", r#"{"item":8}"#)] };
    let place = Place::memory();
    begun.in_module(&format!("{}::added", module_path!())).plant(&place.store, Rows::Follow).await;
    let known = Known(Arc::new(true.into()));
    let engine = builder(&place.store, &Calls::default()).provide(known).start().await.unwrap();
    let run = engine.find("priced").await.unwrap();
    engine.signal(run.id(), "more", "1", &1_u32).await.unwrap();
    in_time(run.end()).await.unwrap();
    let frames = place.store.load(run.id(), 0).await.unwrap();
    let frame = frames.iter().find(|frame| frame.text.contains("version_marked")).unwrap();
    let kinds: Vec<String> = frame.events().unwrap().iter().map(aether::store::event::Event::kind).collect();
    assert_eq!(kinds[..2], ["version_marked", "node_started"]);
    engine.shutdown().await.unwrap();
}
