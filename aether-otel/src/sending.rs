//! Sends spans: which runs go into the next batch, how large it is, and what follows from its fate.
//!
//! Promise: a collector that is away is asked for little and seldom, and gets everything in batches when it is back. One run
//! whose spans are refused holds up no other, and one span that is too large no other span.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aether_core::id::RunId;
use aether_core::store::StoreError;
use opentelemetry_sdk::trace::SpanData;
use tokio::time::Instant;

use crate::exporter::{Exporter, Unexported};
use crate::progress::Kept;
use crate::reader::Reader;
use crate::registry::{EXPORT_FAILURES, EXPORTED, Registry};
use crate::spans::{bytes_of, without_content};

/// Target of what this crate logs.
const TARGET: &str = "aether::telemetry";
/// Spans of one batch.
pub(crate) const BATCH: usize = 256;
/// Bytes of one batch, about. Receivers of gRPC take 4 MiB where they are not told otherwise.
pub(crate) const BATCH_BYTES: usize = 2 << 20;
/// First and longest wait after an export that failed.
const WAITS: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(30);

/// Sends batches to an exporter.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) exporter: Arc<dyn Exporter>,
    /// How long one export may take.
    pub(crate) limit: Duration,
}

/// Spans of which the first `sent` were taken, and then one was not.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) sent: usize,
    pub(crate) why: Unexported,
}

impl Line {
    async fn export(&self, spans: Vec<SpanData>, registry: Option<&Registry>) -> Result<(), Unexported> {
        let total = spans.len();
        let exported = self.exporter.export(spans, self.limit).await;
        if let Some(registry) = registry {
            match exported {
                Ok(()) => registry.add(EXPORTED, Vec::new(), count(total)),
                Err(_) => registry.add(EXPORT_FAILURES, Vec::new(), 1.0),
            }
        }
        exported
    }

    /// Sends the spans of one run in batches of up to `size`, which grow with each that is taken. What is refused is sent in
    /// halves, and a span that is refused alone without what was said.
    pub(crate) async fn send(
        &self,
        spans: &[SpanData],
        size: usize,
        registry: Option<&Registry>,
    ) -> Result<(), Stopped> {
        let (mut sent, mut size) = (0, size.clamp(1, BATCH));
        while let Some(rest) = spans.get(sent..).filter(|rest| !rest.is_empty()) {
            let batch = fitting(rest, size);
            match self.export(batch.to_vec(), registry).await {
                Ok(()) => {
                    sent += batch.len();
                    size = (size * 2).min(BATCH);
                }
                Err(Unexported::Refused(_)) if batch.len() > 1 => size = batch.len() / 2,
                Err(why) => {
                    let bare = batch.first().filter(|_| batch.len() == 1).and_then(without_content);
                    let Some(bare) = bare else { return Err(Stopped { sent, why }) };
                    self.export(vec![bare], registry).await.map_err(|why| Stopped { sent, why })?;
                    tracing::warn!(target: TARGET, %why, "a span was exported without what was said");
                    sent += 1;
                }
            }
        }
        Ok(())
    }
}

/// The first of these spans, as many as fit into a batch; at least one.
fn fitting(spans: &[SpanData], size: usize) -> &[SpanData] {
    let mut bytes = 0;
    let fits = |span: &&SpanData| {
        bytes += bytes_of(span);
        bytes <= BATCH_BYTES
    };
    let count = spans.iter().take(size).take_while(fits).count().max(1);
    spans.get(..count).unwrap_or(spans)
}

/// Sends what a reader has.
#[derive(Debug)]
pub(crate) struct Sender {
    line: Line,
    registry: Arc<Registry>,
    /// Runs that were refused while others were taken: they are sent alone, and after the others.
    suspects: BTreeSet<RunId>,
    /// Whether the collector took the last batch of others. Where it did not, it is asked with one span.
    is_taken: bool,
    /// Most runs of the next batch.
    runs: usize,
    wait: Duration,
    /// When suspects are sent again; all, where nothing is taken.
    pub(crate) retry_at: Option<Instant>,
    /// Failures so far: whose turn it is.
    failures: usize,
}

impl Sender {
    pub(crate) fn new(line: Line, registry: Arc<Registry>) -> Self {
        Self {
            line,
            registry,
            suspects: BTreeSet::new(),
            is_taken: true,
            runs: BATCH,
            wait: *WAITS.start(),
            retry_at: None,
            failures: 0,
        }
    }

    fn is_due(&self) -> bool {
        self.retry_at.is_none_or(|at| at <= Instant::now())
    }

    /// Whether spans of runs that were never refused may be sent now.
    pub(crate) fn is_open(&self) -> bool {
        self.is_taken || self.is_due()
    }

    /// Whether so much waits that may be sent that sending comes before reading.
    pub(crate) fn has_enough(&self, reader: &Reader, enough: usize) -> bool {
        let mut bytes = 0;
        self.is_open()
            && reader.ready().filter(|run| !self.suspects.contains(*run)).any(|run| {
                bytes += reader.span_bytes(run);
                bytes >= enough
            })
    }

    /// The runs of the next batch; empty where nothing may be sent now.
    ///
    /// # Errors
    /// [`StoreError`] when one cannot be read again.
    pub(crate) async fn next(&self, reader: &mut Reader, kept: &mut Kept) -> Result<Vec<RunId>, StoreError> {
        while self.is_open() {
            let batch = self.batch(reader);
            if !batch.is_empty() {
                return Ok(batch);
            }
            if !self.read_behind(reader, kept).await? {
                break;
            }
        }
        while self.is_due() {
            let Some(suspect) = self.turn(reader) else { break };
            if reader.spans(&suspect).is_empty() {
                reader.read(&suspect, kept).await?;
            }
            if !reader.spans(&suspect).is_empty() {
                return Ok(vec![suspect]);
            }
        }
        Ok(Vec::new())
    }

    /// The suspect whose turn it is: one that is refused for good does not stand in the way of the others.
    fn turn(&self, reader: &Reader) -> Option<RunId> {
        let all = reader.ready().chain(reader.behind());
        let suspects: Vec<_> = all.filter(|run| self.suspects.contains(*run)).collect();
        let turn = self.failures.checked_rem(suspects.len())?;
        suspects.get(turn).map(|run| (*run).clone())
    }

    /// Runs in memory that fit into one batch. While nothing is taken, each has its turn alone.
    fn batch(&self, reader: &Reader) -> Vec<RunId> {
        let mut fine = reader.ready().filter(|run| !self.suspects.contains(*run));
        if !self.is_taken {
            let count = reader.ready().filter(|run| !self.suspects.contains(*run)).count();
            let turn = self.failures.checked_rem(count);
            return turn.and_then(|turn| fine.nth(turn)).cloned().into_iter().collect();
        }
        let (mut spans, mut bytes, mut batch) = (0, 0, Vec::new());
        for run in fine {
            spans += reader.spans(run).len();
            bytes += reader.span_bytes(run);
            if !batch.is_empty() && (spans > BATCH || bytes > BATCH_BYTES || batch.len() >= self.runs) {
                break;
            }
            batch.push(run.clone());
        }
        batch
    }

    /// Reads runs again that had no room, as many as fit into a batch; one, while nothing is taken. Whether there was any.
    async fn read_behind(&self, reader: &mut Reader, kept: &mut Kept) -> Result<bool, StoreError> {
        let (mut read, mut spans, mut bytes) = (0, 0, 0);
        let most = if self.is_taken { self.runs.min(reader.capacity()) } else { 1 };
        while read < most && spans < BATCH && bytes < BATCH_BYTES {
            let Some(run) = reader.behind().find(|run| !self.suspects.contains(*run)).cloned() else { break };
            reader.read(&run, kept).await?;
            (read, spans) = (read + 1, spans + reader.spans(&run).len());
            bytes += reader.span_bytes(&run);
        }
        Ok(read > 0)
    }

    /// Sends the spans of these runs. Returns those of which there is more to be read.
    ///
    /// # Errors
    /// Why it failed, where it is tried again only later.
    pub(crate) async fn send(
        &mut self,
        runs: &[RunId],
        reader: &mut Reader,
        kept: &mut Kept,
    ) -> Result<Vec<RunId>, String> {
        if let [run] = runs {
            return self.send_alone(run, reader, kept).await;
        }
        let spans = runs.iter().flat_map(|run| reader.spans(run).to_vec()).collect();
        match self.line.export(spans, Some(&self.registry)).await {
            Ok(()) => {
                self.taken(runs.len());
                Ok(reader.exported(runs, kept))
            }
            // Perhaps one of them was refused, or all are too large together.
            Err(Unexported::Refused(_)) => {
                self.failures += 1;
                self.runs = (runs.len() / 4).max(1);
                Ok(Vec::new())
            }
            Err(why) => Err(self.not_taken(&why)),
        }
    }

    async fn send_alone(
        &mut self,
        run: &RunId,
        reader: &mut Reader,
        kept: &mut Kept,
    ) -> Result<Vec<RunId>, String> {
        let size = if self.is_taken { BATCH } else { 1 };
        match self.line.send(reader.spans(run), size, Some(&self.registry)).await {
            Ok(()) => {
                if self.suspects.remove(run) {
                    (self.wait, self.retry_at) = (*WAITS.start(), None);
                } else {
                    self.taken(1);
                }
                Ok(reader.exported(std::slice::from_ref(run), kept))
            }
            Err(Stopped { sent, why }) => {
                reader.exported_some(run, sent);
                if self.suspects.contains(run) {
                    return Err(self.wait_for(&why));
                }
                // Others are taken: it is this one.
                if matches!(why, Unexported::Refused(_)) && (self.is_taken || sent > 0) {
                    self.suspects.insert(run.clone());
                }
                Err(self.not_taken(&why))
            }
        }
    }

    /// A batch was taken.
    fn taken(&mut self, runs: usize) {
        if !self.is_taken {
            (self.wait, self.retry_at) = (*WAITS.start(), None);
        }
        self.is_taken = true;
        self.runs = (runs * 2).clamp(self.runs, BATCH);
    }

    /// A batch of runs that were never refused was not taken.
    fn not_taken(&mut self, why: &Unexported) -> String {
        (self.is_taken, self.runs) = (false, 1);
        self.wait_for(why)
    }

    fn wait_for(&mut self, why: &Unexported) -> String {
        self.failures += 1;
        self.retry_at = Some(Instant::now() + self.wait);
        self.wait = (self.wait * 2).min(*WAITS.end());
        tracing::warn!(target: TARGET, error = %why, "spans cannot be exported; they are tried again");
        why.to_string()
    }
}

#[allow(clippy::cast_precision_loss, reason = "a count beyond 2^53 is out of reach")]
fn count(number: usize) -> f64 {
    number as f64
}
