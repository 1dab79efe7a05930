//! Schedules that somebody edits in the middle of what another process decides of them. The edit is made where a record was
//! read and is not used yet: there the codec of its input is asked. Time is virtual.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::encryption::{CodecError, EncodedPayload, PayloadCodec, PayloadOwner, PayloadPlace};
use aether::engine::EngineBuilder;
use aether::prelude::*;
use aether::schedule::{CatchUp, Overlap, TickOutcome};
use aether::store::memory::MemoryStore;
use aether::store::{ScheduleRecord, Store as _, Tick};
use aether::view::Status;
use aether_testing::SimEnvironment;
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::time::sleep;

const MINUTE: Duration = Duration::from_secs(60);
const NAME: &str = "edited_wait";

/// Wait for somebody.
#[workflow]
async fn edited_wait(cx: &mut Cx, _of: String) -> Result<()> {
    Ok(cx.signal("anybody").await?)
}

type Edit = Box<dyn FnOnce() + Send>;

/// Makes an edit when so many more inputs of schedules have been read.
#[derive(Clone, Default)]
struct Editor(Arc<Mutex<Option<(usize, Edit)>>>);

impl std::fmt::Debug for Editor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Editor")
    }
}

impl Editor {
    fn at(&self, reads: usize, edit: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((reads, Box::new(edit)));
    }

    /// Whether the edit was made. It is not made from now on.
    fn is_done(&self) -> bool {
        self.0.lock().unwrap().take().is_none()
    }
}

impl PayloadCodec for Editor {
    fn encode(
        &self,
        plain: &[u8],
        _: &PayloadPlace<'_>,
    ) -> std::result::Result<Option<EncodedPayload>, CodecError> {
        Ok(Some(EncodedPayload { key: "none".into(), bytes: plain.to_vec() }))
    }

    fn decode(
        &self,
        encoded: &EncodedPayload,
        place: &PayloadPlace<'_>,
    ) -> std::result::Result<Vec<u8>, CodecError> {
        let mut planned = self.0.lock().unwrap();
        if let (PayloadOwner::Schedule(_), Some((reads, edit))) = (place.owner, planned.take()) {
            match reads {
                1 => edit(),
                _ => *planned = Some((reads - 1, edit)),
            }
        }
        Ok(encoded.bytes.clone())
    }

    fn keyed_digest(&self, _: &[u8]) -> std::result::Result<Option<[u8; 32]>, CodecError> {
        Ok(None)
    }
}

/// Half an hour before the first full hour.
fn world() -> SimEnvironment {
    SimEnvironment::new("2026-01-02T00:30:00Z".parse().unwrap(), 7)
}

fn builder(store: &MemoryStore, world: &SimEnvironment, editor: &Editor) -> EngineBuilder {
    let builder = Engine::builder().environment(Arc::new(world.clone())).store(Arc::new(store.clone()));
    builder.payload_codec(editor.clone()).poll_interval(10 * MINUTE)
}

fn at(hour: u32) -> Timestamp {
    format!("2026-01-02T{hour:02}:00:00Z").parse().unwrap()
}

/// Another process edits the schedule, in one write.
fn edited(store: &MemoryStore, edit: impl FnOnce(&mut ScheduleRecord)) {
    let mut schedule = store.schedule(NAME).now_or_never().unwrap().unwrap().unwrap();
    let revision = schedule.revision;
    edit(&mut schedule);
    schedule.revision += 1;
    assert_eq!(store.put_schedule(schedule, revision).now_or_never(), Some(Ok(true)));
}

/// A worker that was held up between its look and what comes of it ends no run of a schedule that has been paused, changed or
/// removed meanwhile.
#[tokio::test(start_paused = true)]
async fn who_was_held_up_ends_no_run() {
    let edits: [fn(&MemoryStore); 3] = [
        |store| edited(store, |schedule| schedule.paused = true),
        |store| edited(store, |schedule| schedule.spec.overlap = Overlap::Skip),
        |store| assert_eq!(store.remove_schedule(NAME).now_or_never(), Some(Ok(true))),
    ];
    for overlap in [Overlap::Cancel, Overlap::Terminate] {
        for (no, edit) in edits.into_iter().enumerate() {
            let (store, world, editor) = (MemoryStore::new(), world(), Editor::default());
            let engine = builder(&store, &world, &editor).start().await.unwrap();
            let declared = engine.schedule::<edited_wait>("0 * * * *", "UTC").input("it".into());
            declared.overlap(overlap).await.unwrap();
            sleep(80 * MINUTE).await;
            engine.shutdown().await.unwrap();
            // Its clock is too young to be believed: it reads nothing but what is due.
            let engine = builder(&store, &world, &editor).start().await.unwrap();
            sleep(8 * MINUTE).await;
            let behind = store.clone();
            editor.at(1, move || edit(&behind));
            sleep(7 * MINUTE).await;
            assert!(editor.is_done());
            let run = engine.find(&format!("schedule:{NAME}:{}", at(1))).await.unwrap();
            assert_eq!(run.status().await.unwrap(), Status::Waiting, "{overlap:?}, edit {no}");
            engine.shutdown().await.unwrap();
        }
    }
}

/// Another process starts a tick while the schedule is declared anew: those behind it do not run beside it.
#[tokio::test(start_paused = true)]
async fn a_tick_that_another_process_starts_is_waited_for() {
    let mut made = 0;
    for reads in 1..9 {
        let (store, world, editor) = (MemoryStore::new(), world(), Editor::default());
        let client = builder(&store, &world, &editor).client().start().await.unwrap();
        let declared = |cron: &str| {
            let declared = client.schedule::<edited_wait>(cron, "UTC").input("it".into());
            declared.overlap(Overlap::Wait).catch_up(CatchUp::All(4))
        };
        let schedule = declared("0 * * * *").await.unwrap();
        sleep(180 * MINUTE).await;
        // Its run is there and open, and not noted as that of a tick.
        schedule.trigger_for(at(1)).await.unwrap();
        let behind = store.clone();
        editor.at(reads, move || {
            edited(&behind, |schedule| {
                (schedule.last, schedule.next) = (Some(at(1)), at(2));
                let outcome = TickOutcome::Started;
                schedule.recent.push(Tick { at: at(1), until: at(1), outcome, noted_at: None });
            });
        });
        declared("30 * * * *").await.unwrap();
        if editor.is_done() {
            made += 1;
            let record = schedule.record().await.unwrap();
            assert_eq!((record.last, record.starting), (Some(at(1)), vec![]), "read {reads}");
        }
        client.shutdown().await.unwrap();
    }
    assert!(made > 0);
}
