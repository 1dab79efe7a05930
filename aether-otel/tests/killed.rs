//! One run whose process is killed again and again: one trace, and each span once.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aether::otel::{Telemetry, otlp};
use aether::prelude::*;
use aether_core::id::RunId;
use opentelemetry_proto::tonic::trace::v1::Span;
use tempfile::tempdir;

use crate::collector::{Collector, text};
use crate::journal;
use crate::kit::{LONG, engine, to_http};

const FOLDER: &str = "AETHER_OTEL_CHILD_FOLDER";
const COLLECTOR: &str = "AETHER_OTEL_CHILD_COLLECTOR";
const KILLS: usize = 10;
const CALLS: usize = 60;

/// Make a part. Made again where a kill leaves it unknown whether it was.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
async fn make(_cx: &mut StepCx, number: usize) -> Result<usize> {
    tokio::time::sleep(Duration::from_millis(8)).await;
    Ok(number)
}

/// Calls a tool often, and rests in between.
#[workflow]
async fn often(cx: &mut Cx, calls: usize) -> Result<usize> {
    for number in 0..calls {
        make(cx, number).await?;
        if number % 10 == 5 {
            cx.sleep(Duration::from_millis(40)).await;
        }
    }
    Ok(calls)
}

/// Runs where the test below started this program; without a folder there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed() {
    let (Ok(folder), Ok(collector)) = (std::env::var(FOLDER), std::env::var(COLLECTOR)) else { return };
    let folder = Path::new(&folder);
    let engine = engine(&folder.join("a.db")).await;
    let exporter = otlp::grpc(collector).unwrap();
    let telemetry = Telemetry::builder().spans_to(exporter).progress_in(folder.join("telemetry.json"));
    let telemetry = telemetry.start(&engine);
    let run = engine.start::<often>(CALLS).id("often").await.unwrap();
    run.result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    engine.shutdown().await.unwrap();
}

struct Killed(Child);

impl Killed {
    fn start(folder: &Path, collector: &Collector) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["killed::a_process_that_is_killed", "--exact", "--nocapture"]);
        command.env(FOLDER, folder).env(COLLECTOR, collector.url());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_kills_leave_one_trace_with_each_span_once() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    for kill in 0..KILLS {
        let killed = Killed::start(folder.path(), &collector);
        // Killed while it exports, a little later each time.
        let before = collector.received.count();
        let mut patience = 1_000;
        while collector.received.count() == before && patience > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            patience -= 1;
        }
        assert!(patience > 0, "process {kill} exported nothing");
        tokio::time::sleep(Duration::from_millis(3 * kill as u64)).await;
        drop(killed);
    }
    let mut last = Killed::start(folder.path(), &collector);
    let status = tokio::task::spawn_blocking(move || last.0.wait().unwrap()).await.unwrap();
    assert!(status.success());

    let engine = engine(&folder.path().join("a.db")).await;
    let run = RunId::new("often").unwrap();
    let spans = collector.received.folded();
    let of_run: Vec<&Span> = spans.values().filter(|span| text(span, "aether.run.id") == "often").collect();
    assert!(of_run.iter().all(|span| span.trace_id == of_run[0].trace_id));
    assert_eq!(of_run.iter().filter(|span| span.name == "invoke_workflow often").count(), 1);
    assert_eq!(of_run.iter().filter(|span| span.name == "execute_tool make").count(), CALLS);
    let claims = of_run.iter().filter(|span| span.name == "aether.segment");
    assert!(
        claims.filter(|span| text(span, "aether.segment.end") == "released_or_lost").count() >= KILLS / 2
    );

    // Nothing is missing, and nothing is other than what the whole journal gives at once.
    let whole = Collector::http().await;
    let telemetry = to_http(&whole).start(&engine);
    telemetry.backfill(jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    assert_eq!(spans, whole.received.folded());

    let times = journal::times(&journal::events(&engine, &run).await);
    let compared = journal::assert_same_times(&times, of_run);
    assert!(compared > CALLS, "{compared}");
    engine.shutdown().await.unwrap();
}
