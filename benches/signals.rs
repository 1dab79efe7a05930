//! Signals: what a message costs while many are unread, and how many are taken in, by one run and by many.
//!
//! `cargo bench --bench signals -- [--unread U] [--signals S] [--senders C] [--dir DIR] [--json]`
//!
//! U signals (default 6,000) are sent to a run that waits for another one; measured is the time of each of the last 100.
//! Then S signals (default 100,000) are sent by C senders (default 8) to one run that takes them in as they come, and then
//! one each to S runs that wait for it and are not in memory; each also with a tenth of S, for the time must grow no faster
//! than their number. Measured is the time until all of them are taken in and their runs have ended, and the largest memory
//! of the process.
//!
//! The floor is a bare writer that writes the same messages and the same frames in the same folder, twice; the median
//! counts. Its senders wait for their messages, and for no frame. The ratio is the engine's signals per second over its.

#[path = "kit/mod.rs"]
mod kit;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aether::engine::Limits;
use aether::prelude::*;
use aether::store::RunFilter;
use aether::view::Status;
use kit::figures::{median, tell};
use kit::progress::until;
use kit::writer::{Row, Writer};
use serde_json::json;

/// How many runs are started at the same time.
const STARTS: u32 = 500;

/// Takes in `count` signals, after the word to begin.
#[workflow]
async fn collect(cx: &mut Cx, count: u32) -> Result<u64> {
    cx.signal::<()>("begin").await?;
    let mut sum = 0;
    for _ in 0..count {
        sum += u64::from(cx.signal::<u32>("item").await?);
    }
    Ok(sum)
}

/// Takes in one signal.
#[workflow]
async fn take(cx: &mut Cx, number: u32) -> Result<u32> {
    Ok(number + cx.signal::<u32>("item").await?)
}

struct Options {
    unread: u32,
    signals: u32,
    senders: u32,
    json: bool,
    dir: PathBuf,
}

impl Options {
    fn parse() -> kit::Result<Self> {
        let mut given = kit::options::Options::read();
        let options = Self {
            unread: given.value("--unread", 6_000)?,
            signals: given.value("--signals", 100_000)?,
            senders: given.value("--senders", 8)?.max(1),
            json: given.flag("--json"),
            dir: kit::place::folder(&mut given)?,
        };
        given.end()?;
        Ok(options)
    }
}

/// An engine on a new file. It has no limit of unread messages, and evicts at once what only waits if it is told to.
async fn engine(path: &Path, evicts: bool) -> kit::Result<Engine> {
    let limits = Limits { inbox: usize::MAX, ..Limits::default() };
    let builder = Engine::builder().sqlite(path).limits(limits);
    let builder = if evicts { builder.eviction_grace(Duration::from_millis(5)) } else { builder };
    Ok(builder.start().await?)
}

/// Sends one signal, the one of this number.
async fn send(engine: &Engine, run: &str, item: u32) -> kit::Result<()> {
    engine.signal(&run.parse()?, "item", &format!("item-{item}"), &1_u32).await?;
    Ok(())
}

/// What a message costs while many are unread.
async fn unread(options: &Options) -> kit::Result<()> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let (engine, unread) = (engine(&dir.path().join("signals.db"), false).await?, options.unread);
    let run = engine.start::<collect>(unread).id("unread").await?;
    let probes = unread.min(100);
    for item in 0..unread - probes {
        send(&engine, "unread", item).await?;
    }
    let begun = Instant::now();
    for item in unread - probes..unread {
        send(&engine, "unread", item).await?;
    }
    let per_message_ms = begun.elapsed().as_secs_f64() * 1000.0 / f64::from(probes.max(1));
    engine.signal(run.id(), "begin", "begin", &()).await?;
    let begun = Instant::now();
    let sum = run.result().await?;
    let drain_seconds = begun.elapsed().as_secs_f64();
    engine.shutdown().await?;
    if sum != u64::from(unread) {
        return Err(format!("{sum} signals of {unread} were taken in").into());
    }
    let figures = json!({
        "engine": "aether-sqlite", "target": "unread", "unread": unread, "per_message_ms": per_message_ms,
        "drain_seconds": drain_seconds,
    });
    let text = format!(
        "{per_message_ms:.2} ms a message with {unread} unread, all taken in after {drain_seconds:.2} s"
    );
    tell(options.json, "signals", figures, &text);
    Ok(())
}

/// To whom the signals go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    One,
    Each,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::One => "one run",
            Self::Each => "a run each",
        }
    }

    fn run(self, item: u32) -> String {
        match self {
            Self::One => "one".into(),
            Self::Each => format!("run-{item}"),
        }
    }

    /// Starts the runs. They wait, and those of `Each` are not in memory any more.
    async fn start(self, engine: &Engine, signals: u32) -> kit::Result<()> {
        if self == Self::One {
            let run = engine.start::<collect>(signals).id(self.run(0)).await?;
            engine.signal(run.id(), "begin", "begin", &()).await?;
            return Ok(());
        }
        let starter = engine.clone();
        together(STARTS, signals, move |item| {
            let engine = starter.clone();
            async move {
                engine.start::<take>(item).id(self.run(item)).await?;
                Ok(())
            }
        })
        .await?;
        let evicted = async || Ok(u64::from(signals).saturating_sub(engine.health().await.active as u64));
        until("runs evicted", signals.into(), Duration::from_millis(20), evicted).await
    }

    /// Waits until all signals are taken in.
    async fn ended(self, engine: &Engine, signals: u32) -> kit::Result<()> {
        if self == Self::One {
            let sum = engine.handle::<collect>(self.run(0)).await?.result().await?;
            return if sum == u64::from(signals) {
                Ok(())
            } else {
                Err(format!("{sum} signals of {signals} were taken in").into())
            };
        }
        let completed = RunFilter::new().status(Status::Completed);
        let count = async || Ok(engine.count(completed.clone()).await?);
        until("runs completed", signals.into(), Duration::from_millis(20), count).await
    }

    /// Checks the results of some of the runs.
    async fn checked(self, engine: &Engine, signals: u32) -> kit::Result<()> {
        let some = if self == Self::One { 0..0 } else { 0..signals };
        for item in some.step_by((signals / 1_000).max(1) as usize) {
            let result = engine.handle::<take>(self.run(item)).await?.result().await?;
            if result != item + 1 {
                return Err(format!("run {item} returned {result}").into());
            }
        }
        Ok(())
    }
}

/// Does something for each number below `count`, `lanes` of them at a time.
async fn together<F>(
    lanes: u32,
    count: u32,
    one: impl Fn(u32) -> F + Clone + Send + 'static,
) -> kit::Result<()>
where
    F: Future<Output = kit::Result<()>> + Send,
{
    let lanes = (0..lanes).map(|lane| {
        let one = one.clone();
        tokio::spawn(async move {
            for item in (lane..count).step_by(lanes as usize) {
                one(item).await?;
            }
            kit::Result::Ok(())
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await??;
    }
    Ok(())
}

/// Seconds until so many signals are taken in, and what was written of them meanwhile.
async fn taken_in(options: &Options, target: Target, signals: u32) -> kit::Result<(f64, Vec<Arc<str>>)> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let path = dir.path().join("signals.db");
    let engine = engine(&path, target == Target::Each).await?;
    target.start(&engine, signals).await?;
    let (before, begun) = (kit::journal::newest(&path)?, Instant::now());
    let sender = engine.clone();
    together(options.senders, signals, move |item| {
        let engine = sender.clone();
        async move { send(&engine, &target.run(item), item).await }
    })
    .await?;
    target.ended(&engine, signals).await?;
    let seconds = begun.elapsed().as_secs_f64();
    target.checked(&engine, signals).await?;
    engine.shutdown().await?;
    Ok((seconds, kit::journal::texts(&path, before, u32::MAX)?))
}

/// Seconds of a bare writer that writes as many messages, each waited for, and these frames.
async fn floor(options: &Options, signals: u32, frames: &Arc<[Arc<str>]>) -> kit::Result<f64> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let writer = Arc::new(Writer::start(&dir.path().join("bare.db"))?);
    let (begun, queue, count) = (Instant::now(), Arc::clone(&writer), frames.len());
    let frames = Arc::clone(frames);
    together(options.senders, signals, move |item| {
        let (mut run, frames) = (queue.run(item), Arc::clone(&frames));
        async move {
            let message = json!({ "topic": "item", "id": format!("item-{item}"), "payload": 1 }).to_string();
            run.put(&Row { text: message.into(), awaited: true }).await?;
            // Each sender has as many of the frames as of the messages.
            let share = |item: u32| item as usize * frames.len() / signals as usize;
            for text in &frames[share(item)..share(item + 1)] {
                run.put(&Row { text: Arc::clone(text), awaited: false }).await?;
            }
            Ok(())
        }
    })
    .await?;
    let writer = Arc::into_inner(writer).ok_or("a sender still has the writer")?;
    let written = writer.end()?.rows;
    if written != u64::from(signals) + count as u64 {
        return Err(
            format!("the bare writer wrote {written} rows of {signals} signals and {count} frames").into()
        );
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// One line. Returns the signals per second.
async fn line(options: &Options, target: Target, signals: u32, tenth: Option<f64>) -> kit::Result<f64> {
    let (seconds, frames) = taken_in(options, target, signals).await?;
    let (count, frames) = (frames.len(), Arc::from(frames));
    let floors = vec![floor(options, signals, &frames).await?, floor(options, signals, &frames).await?];
    let (rate, floor) = (f64::from(signals) / seconds, f64::from(signals) / median(floors));
    let (ratio, to_tenth, peak_mb) = (rate / floor, tenth.map(|tenth| rate / tenth), kit::memory::peak_mb());
    let figures = json!({
        "engine": "aether-sqlite", "target": target.name(), "signals": signals, "senders": options.senders,
        "frames": count, "seconds": seconds, "signals_per_s": rate, "rate_to_that_of_a_tenth": to_tenth,
        "floor_signals_per_s": floor, "ratio": ratio, "peak_mb": peak_mb,
    });
    let mut text = format!(
        "{signals} signals to {} in {seconds:.1} s ({rate:.0}/s), at most {} MB; the bare writer {floor:.0}/s, ratio {ratio:.2}",
        target.name(),
        peak_mb.unwrap_or_default()
    );
    if let Some(to_tenth) = to_tenth {
        text += &format!("; {to_tenth:.2} times the rate of a tenth of them");
    }
    tell(options.json, "signals", figures, &text);
    Ok(rate)
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let options = Options::parse()?;
    if options.unread > 0 {
        unread(&options).await?;
    }
    if options.signals > 0 {
        for target in [Target::One, Target::Each] {
            let tenth = line(&options, target, options.signals.div_ceil(10), None).await?;
            line(&options, target, options.signals, Some(tenth)).await?;
        }
    }
    Ok(())
}
