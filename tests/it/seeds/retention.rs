//! Retention: row 102.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::prelude::*;
use aether::retention::{PurgeDecision, PurgeReport, Retention};
use aether::store::RunFilter;
use aether::view::Status;

use super::chain::{act, look};
use super::kit::{Calls, builder, in_time, stores};

/// End in the way that is asked for.
#[workflow]
async fn seed_end_as(cx: &mut Cx, how: String) -> Result<u32> {
    act(cx, 1).await?;
    match how.as_str() {
        "completed" => Ok(1),
        "failed" => Err(Failure::permanent("as asked")),
        _ => Ok(cx.signal("never").await?),
    }
}

/// Start a child, and stay open.
#[workflow]
async fn seed_open_parent(cx: &mut Cx) -> Result<u32> {
    cx.child::<seed_brief>(()).await?;
    Ok(cx.signal("never").await?)
}

/// End soon.
#[workflow]
async fn seed_brief(cx: &mut Cx) -> Result<()> {
    look(cx, 1).await?;
    Ok(())
}

async fn names(engine: &Engine) -> Vec<String> {
    let mut names: Vec<_> =
        engine.runs(RunFilter::default()).await.unwrap().iter().map(|run| run.id.to_string()).collect();
    names.sort();
    names
}

async fn filled(engine: &Engine) {
    for how in ["completed", "failed", "waiting", "cancelled"] {
        let run = engine.start::<seed_end_as>(how.to_owned()).id(how).await.unwrap();
        match how {
            "waiting" => {}
            "cancelled" => {
                engine.cancel(run.id(), "not needed", "ann").await.unwrap();
                in_time(run.end()).await.unwrap();
            }
            _ => drop(in_time(run.end()).await.unwrap()),
        }
    }
    let parent = engine.start::<seed_open_parent>(()).id("parent").await.unwrap();
    in_time(async {
        while engine.view(parent.id()).await.unwrap().steps.len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn s102_ended_runs_are_purged_by_age_and_status_and_open_ones_never() {
    let every_age = Retention::new()
        .completed(Duration::ZERO)
        .failed(Duration::ZERO)
        .rejected(Duration::ZERO)
        .cancelled(Duration::ZERO)
        .batch(1);
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        filled(&engine).await;
        let all = names(&engine).await;
        let nothing = PurgeReport::default();
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(engine.purge(&Retention::new()).await.unwrap(), nothing);
        assert_eq!(engine.purge(&Retention::new().completed(day).failed(day)).await.unwrap(), nothing);
        assert_eq!(engine.purge(&Retention::new().completed(Duration::MAX)).await.unwrap(), nothing);
        assert_eq!(names(&engine).await, all);

        let failed = engine.purge(&Retention::new().failed(Duration::ZERO)).await.unwrap();
        assert_eq!(failed, PurgeReport { deleted: 1, ..nothing });
        assert_eq!(
            names(&engine).await,
            ["cancelled", "completed", "parent", "parent/0:seed_brief", "waiting"]
        );
        // The child has ended; it stays as long as its parent is open.
        let rest = engine.purge(&every_age).await.unwrap();
        assert_eq!(rest, PurgeReport { deleted: 2, kept: 0, held: 1, failed: 0 });
        assert_eq!(names(&engine).await, ["parent", "parent/0:seed_brief", "waiting"]);
        assert!(engine.handle::<seed_end_as>("completed").await.is_err());

        // What is open goes on as if nothing had happened.
        for open in ["parent", "waiting"] {
            let run = engine.find(open).await.unwrap();
            engine.signal(run.id(), "never", "1", &7).await.unwrap();
            in_time(async {
                while run.status().await.unwrap() != Status::Completed {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
            engine.verify(run.id()).await.unwrap();
        }
        assert_eq!(
            engine.purge(&every_age).await.unwrap(),
            PurgeReport { deleted: 3, kept: 0, held: 0, failed: 0 }
        );
        assert!(names(&engine).await.is_empty());
    }
}

#[tokio::test]
async fn s102_a_hook_is_called_before_each_deletion_and_can_keep_a_run() {
    for place in stores() {
        let place = place();
        let archive: Arc<Mutex<Vec<(String, usize, Status)>>> = Arc::default();
        let retention = {
            let archive = Arc::clone(&archive);
            Retention::new().completed(Duration::ZERO).failed(Duration::ZERO).before_purge(move |run| {
                let archive = Arc::clone(&archive);
                async move {
                    // The run is still there when the hook is asked.
                    let (frames, view) = (run.journal().await.unwrap(), run.view().await.unwrap());
                    let name = run.record().id.to_string();
                    archive.lock().unwrap().push((name, frames.len(), view.status));
                    if view.status == Status::Failed { PurgeDecision::Keep } else { PurgeDecision::Delete }
                }
            })
        };
        {
            let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
            filled(&engine).await;
            let report = engine.purge(&retention).await.unwrap();
            assert_eq!((report.deleted, report.kept), (1, 1));
            assert_eq!(engine.purge(&retention).await.unwrap().kept, 1, "it is asked about again");
            engine.shutdown().await.unwrap();
        }
        let asked = archive.lock().unwrap().clone();
        let mut kinds: Vec<_> = asked.iter().map(|(name, _, status)| (name.as_str(), *status)).collect();
        kinds.sort_by_key(|(name, _)| *name);
        kinds.dedup();
        let child = ("parent/0:seed_brief", Status::Completed);
        assert_eq!(kinds, [("completed", Status::Completed), ("failed", Status::Failed), child]);
        assert!(asked.iter().all(|(_, frames, _)| *frames > 1));
    }
}

#[tokio::test]
async fn s102_an_engine_with_a_retention_purges_by_itself() {
    for place in stores() {
        let place = place();
        let engine = builder(&place.store, &Calls::default())
            .retention(Retention::new().completed(Duration::ZERO).every(Duration::from_millis(10)))
            .start()
            .await
            .unwrap();
        filled(&engine).await;
        in_time(async {
            while names(&engine).await != ["cancelled", "failed", "parent", "parent/0:seed_brief", "waiting"]
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
}
