//! What the task reads, and when: what no collector sees.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use aether::prelude::*;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use super::*;
use crate::progress::FileProgress;
use crate::reader::Room;
use crate::sending::Line;
use crate::settings::Settings;

/// A collector that is away or there.
#[derive(Clone, Debug, Default)]
struct There {
    is_there: Arc<AtomicBool>,
    batches: Arc<Mutex<Vec<Vec<SpanData>>>>,
}

impl SpanExporter for There {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        if !self.is_there.load(Ordering::SeqCst) {
            return Err(OTelSdkError::InternalFailure("away".into()));
        }
        self.batches.lock().unwrap().push(batch);
        Ok(())
    }
}

impl There {
    fn ids(&self) -> Vec<String> {
        let batches = self.batches.lock().unwrap();
        batches.iter().flatten().map(|span| span.span_context.span_id().to_string()).collect()
    }
}

/// Note something.
#[step(effect = "read")]
async fn note(_cx: &mut StepCx, text: &str) -> Result<String> {
    Ok(text.to_owned())
}

/// Notes a text some times.
#[workflow]
async fn noting(cx: &mut Cx, times: usize, letters: usize) -> Result<()> {
    for _ in 0..times {
        note(cx, &"a".repeat(letters)).await?;
    }
    Ok(())
}

async fn noted(runs: usize, times: usize, letters: usize) -> Engine {
    let engine = Engine::builder().memory().start().await.unwrap();
    for run in 0..runs {
        let run = engine.start::<noting>((times, letters)).id(format!("run-{run:03}")).await.unwrap();
        run.result().await.unwrap();
    }
    engine
}

fn work(engine: &Engine, exporter: &There, settings: Settings, room: Room) -> Work {
    let (store, registry) = (Arc::clone(engine.store()), Arc::new(Registry::default()));
    let line = Line { exporter: Arc::new(exporter.clone()), limit: Duration::from_secs(10) };
    let metrics = Metrics::new(Arc::clone(&registry), Arc::clone(&store), engine.gauge());
    let reader = Reader::new(Arc::clone(&store), settings, Arc::clone(&registry), true, room);
    let sender = Sender::new(line, Arc::clone(&registry));
    let nowhere = Arc::new(FileProgress::at("/nowhere"));
    Work::new(store, Some(sender), nowhere, metrics, registry, reader, Duration::from_secs(3_600))
}

impl Work {
    /// Looks, and works until there is nothing to do.
    async fn go(&mut self) {
        self.looks.next = Instant::now();
        while self.piece().await {}
    }

    fn try_again(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.retry_at = None;
        }
    }
}

#[tokio::test]
async fn in_an_outage_a_look_reads_no_journal_again_and_afterwards_each_is_read_once_more() {
    let (engine, exporter) = (noted(60, 1, 10).await, There::default());
    let room = Room { runs: 20, ..Room::default() };
    let mut work = work(&engine, &exporter, Settings::default(), room);
    work.go().await;
    let read = work.reader.begun();
    assert!((60..=62).contains(&read), "{read} journals were read of 60");
    for _ in 0..5 {
        work.go().await;
    }
    assert_eq!(work.reader.begun(), read, "a look reads again what only waits");
    // A try later is one small question.
    work.try_again();
    work.go().await;
    assert!(work.reader.begun() <= read + 1);

    exporter.is_there.store(true, Ordering::SeqCst);
    work.try_again();
    work.go().await;
    let ids = exporter.ids();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 60 * 4);
    assert!(ids.len() <= 60 * 4 + 4, "{} spans were sent", ids.len());
    assert!(work.reader.begun() <= read + 1 + 60, "{} journals were read again", work.reader.begun() - read);
    let requests = exporter.batches.lock().unwrap().len();
    assert!(requests <= 20, "{requests} requests for 60 runs");
    assert!(work.kept.open.is_empty() && work.reader.lag() == 0);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn values_of_steps_are_let_go_and_spans_wait_in_little_room() {
    let (engine, exporter) = (noted(1, 40, 50_000).await, There::default());
    let settings = Settings { content: true, ..Settings::default() };
    let room = Room { run_bytes: 400_000, ..Room::default() };
    let mut work = work(&engine, &exporter, settings, room);
    work.go().await;
    // A part of it is there, and the rest is not read yet.
    assert_eq!(work.reader.lag(), 1);
    let (before, run) = (work.reader.bytes(), RunId::new("run-000").unwrap());
    assert!(work.reader.span_bytes(&run) < 2_000_000, "of about 4 MB");

    exporter.is_there.store(true, Ordering::SeqCst);
    work.try_again();
    work.go().await;
    assert_eq!(exporter.ids().iter().collect::<BTreeSet<_>>().len(), 2 + 2 * 40);
    assert!(work.kept.open.is_empty() && work.reader.lag() == 0);
    assert!(before < 4 << 20, "{before} bytes");

    // Without content, all of it is read and little of it is kept.
    let away = There::default();
    let mut work = self::work(&engine, &away, Settings::default(), Room::default());
    work.go().await;
    assert!(work.reader.lag() == 1 && work.reader.bytes() < 400_000, "{} bytes", work.reader.bytes());
    assert_eq!(work.reader.kept_values(), 0);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_is_over_the_bytes_that_there_is_room_for_is_read_again_later() {
    let (engine, exporter) = (noted(30, 2, 10).await, There::default());
    let room = Room { bytes: 40_000, ..Room::default() };
    let mut work = work(&engine, &exporter, Settings::default(), room);
    work.go().await;
    assert!(work.reader.bytes() <= 40_000 && work.reader.behind().count() > 10);
    assert_eq!(work.reader.lag(), 30);
    exporter.is_there.store(true, Ordering::SeqCst);
    work.try_again();
    work.go().await;
    assert_eq!(exporter.ids().iter().collect::<BTreeSet<_>>().len(), 30 * 6);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn appends_that_were_missed_lead_to_one_look_and_not_to_one_after_the_other() {
    let (engine, exporter) = (noted(1, 1, 1).await, There::default());
    let mut work = work(&engine, &exporter, Settings::default(), Room::default());
    let now = Instant::now();
    work.looks = Looks { next: now + Duration::from_secs(900), ended: now, took: Duration::from_secs(30) };
    let (sender, mut watch) = broadcast::channel(1);
    for _ in 0..3 {
        let (run, at) = (RunId::new("run-000").unwrap(), jiff::Timestamp::now());
        sender.send(Observed { run, at, events: Arc::new([]) }).unwrap();
    }
    work.hear(&mut watch);
    assert_eq!(work.looks.next, now + Duration::from_secs(120));
    work.looks.took = Duration::ZERO;
    work.looks.missed();
    assert_eq!(work.looks.next, now + LEAST_AGE);
    engine.shutdown().await.unwrap();
}
