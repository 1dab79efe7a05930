//! Runs that wait in many branches: a suspension writes no more than it must.

use std::time::Duration;

use aether::prelude::*;
use aether::sqlite::rusqlite::Connection;
use aether::store::Store;
use aether::store::event::Event;
use aether::view::Status;

use crate::seeds::kit::{Calls, Place, builder, in_time, run_id};

/// Wait for so many signals.
#[workflow]
async fn gather(cx: &mut Cx, count: u32) -> Result<u32> {
    let came = cx.each(0..count, async |cx: &mut Cx, n: u32| {
        let word = cx.signal::<u32>(&format!("s{n}")).await;
        word.unwrap_or_default()
    });
    Ok(came.await.into_iter().sum())
}

/// Waits until the run is suspended behind `position`; the end of its journal then.
async fn suspended_behind(store: &dyn Store, position: u64) -> u64 {
    in_time(async {
        loop {
            let record = store.run(&run_id("many")).await.unwrap().unwrap();
            if record.status == Status::Waiting && record.next > position {
                return record.next;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_run_that_waits_in_many_branches_does_not_write_all_of_them_at_each_suspension() {
    let place = Place::sqlite();
    let builder = builder(&place.store, &Calls::default()).eviction_grace(Duration::ZERO);
    let engine = builder.start().await.unwrap();
    let run = engine.start::<gather>(2_000).id("many").await.unwrap();
    let mut position = suspended_behind(&*place.store, 1).await;
    // From the last one on: those that are not named must be found, too.
    for n in (1_800..2_000_u32).rev() {
        engine.signal(run.id(), &format!("s{n}"), &n.to_string(), &n).await.unwrap();
        position = suspended_behind(&*place.store, position).await;
    }
    let frames = place.store.load(run.id(), 0).await.unwrap();
    let bytes: usize = frames.iter().map(|frame| frame.text.len()).sum();
    assert!(bytes < 2_000_000, "{bytes} bytes");
    let events = frames.iter().flat_map(|frame| frame.events().unwrap());
    let waiting = events.filter_map(|event| match event {
        Event::RunWaiting(waiting) => Some((waiting.on.len(), waiting.more)),
        _ => None,
    });
    let waiting: Vec<_> = waiting.collect();
    assert!(waiting.len() > 200, "{} suspensions", waiting.len());
    assert_eq!((waiting[0], waiting[waiting.len() - 1]), ((64, 1_936), (64, 1_736)));
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_message_is_found_for_a_wait_that_its_suspension_does_not_name() {
    let place = Place::sqlite();
    let engine =
        builder(&place.store, &Calls::default()).eviction_grace(Duration::ZERO).start().await.unwrap();
    let run = engine.start::<gather>(100).id("many").await.unwrap();
    let position = suspended_behind(&*place.store, 1).await;
    engine.shutdown().await.unwrap();
    let client = builder(&place.store, &Calls::default()).client().start().await.unwrap();
    client.signal(run.id(), "s99", "1", &99_u32).await.unwrap();
    client.shutdown().await.unwrap();
    // Whatever lost its wake-up.
    let db = Connection::open(place.file()).unwrap();
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(db.execute("UPDATE aether_runs SET wake_at = NULL", []).unwrap(), 1);
    let engine =
        builder(&place.store, &Calls::default()).eviction_grace(Duration::ZERO).start().await.unwrap();
    suspended_behind(&*place.store, position).await;
    let open = engine.pending(run.id()).await.unwrap();
    assert_eq!((open.len(), open.iter().any(|wait| wait.name == "s99")), (99, false));
    engine.shutdown().await.unwrap();
}
