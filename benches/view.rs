//! Views: how long the first view of a long run takes, and how much memory.
//!
//! `cargo bench --bench view -- [--steps S] [--dir DIR] [--scratch DIR] [--json]`
//!
//! A run of S steps (default 100,000) is recorded. A second process, which this one starts, makes a view of it from the
//! whole journal; measured are its time and the largest memory of that process. Then that process reads the journal again
//! in pages of 2,000 events, as a view does: told are how many they are, how long one takes, and their bytes; and the bytes
//! of the view as JSON. Another process makes a view of the last page of steps, which folds the whole journal as well and
//! keeps 200 steps.
//!
//! The floor is a process that reads the same rows with SQL and parses them as JSON, once before the view and once after
//! it; the median counts. The ratio is the view's time over the floor's. Every recorded step waits for the disk: `--scratch`
//! with a folder in memory, such as `/dev/shm`, records sooner, and the file is then copied to `--dir` (default: the target
//! directory).

#[path = "kit/mod.rs"]
mod kit;

use std::path::Path;
use std::time::{Duration, Instant};

use aether::engine::Limits;
use aether::id::RunId;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::Store;
use aether::view::{RunView, StepPage};
use kit::child::{figures, number};
use kit::figures::{median, percentile_ms, tell};
use kit::memory;
use serde_json::json;

/// Events of a page.
const PAGE: u64 = 2_000;

#[step(effect = "tool")]
async fn send(_cx: &mut StepCx, number: u32) -> Result<String> {
    Ok(format!("{number:0>100}"))
}

#[workflow]
async fn long(cx: &mut Cx, steps: u32) -> Result<usize> {
    let mut length = 0;
    for number in 0..steps {
        length += send(cx, number).await?.len();
    }
    Ok(length)
}

async fn record(path: &Path, steps: u32) -> kit::Result<()> {
    let limits = Limits { history: u64::MAX, ..Limits::default() };
    let engine = Engine::builder().sqlite(path).limits(limits).start().await?;
    let length = engine.start::<long>(steps).id("long").await?.result().await?;
    if length != 100 * steps as usize {
        return Err(format!("{steps} steps returned {length} bytes").into());
    }
    Ok(engine.shutdown().await?)
}

/// Reads a journal in pages: the time of each, from the shortest to the longest, and the bytes of all.
async fn pages(store: &dyn Store, run: &RunId, events: u64) -> kit::Result<(Vec<Duration>, usize)> {
    let (mut times, mut bytes, mut next) = (Vec::new(), 0, 0);
    while next < events {
        let begun = Instant::now();
        let frames = store.load_page(run, next, PAGE).await?;
        for frame in &frames {
            next = frame.position + frame.events()?.len() as u64;
            bytes += frame.text.len();
        }
        times.push(begun.elapsed());
        if frames.is_empty() {
            return Err(format!("the pages end at {next} of {events} events").into());
        }
    }
    times.sort_unstable();
    Ok((times, bytes))
}

/// What the second process does: makes a view, of all steps or of the last page of them.
async fn view(path: &Path, steps: u32, is_page: bool) -> kit::Result<()> {
    let (store, run) = (SqliteStore::open(path)?, "long".parse::<RunId>()?);
    let (before, begun) = (memory::resident(), Instant::now());
    let view = match is_page {
        true => RunView::load_page(&store, &run, StepPage::last()).await?,
        false => RunView::load(&store, &run).await?,
    };
    let seconds = begun.elapsed().as_secs_f64();
    let (peak_mb, grown_mb) = (memory::peak_mb(), memory::peak_mb_beyond(before));
    if view.step_count() != steps as usize || view.result.is_none() {
        return Err(format!("the view has {} steps of {steps}", view.step_count()).into());
    }
    let (pages, bytes) = pages(&store, &run, view.position).await?;
    let figures = json!({
        "events": view.position, "seconds": seconds, "peak_mb": peak_mb, "grown_mb": grown_mb, "pages": pages.len(),
        "page_p50_ms": percentile_ms(&pages, 50), "page_p99_ms": percentile_ms(&pages, 99), "journal_bytes": bytes,
        "view_bytes": serde_json::to_vec(&view)?.len(),
    });
    println!("{figures}");
    Ok(store.close().await?)
}

fn measure(path: &str, steps: u32, is_page: bool, json: bool) -> kit::Result<()> {
    let (part, mode) = if is_page { ("the last page", "--page") } else { ("all steps", "--view") };
    let before = figures(&["--floor", path])?;
    let mut view = figures(&[mode, path, "--steps", &steps.to_string()])?;
    let after = figures(&["--floor", path])?;
    if before["events"] != view["events"] || after["events"] != view["events"] {
        return Err(format!("{view} and {after} are not about the same journal").into());
    }
    let floor = median(vec![number(&before, "seconds")?, number(&after, "seconds")?]);
    let seconds = number(&view, "seconds")?;
    let ratio = seconds / floor;
    let text = format!(
        "{part} of {steps}, {} events, in {seconds:.2} s, {} MB more, at most {} MB; {} pages, p50 {:.2} ms; without a view {floor:.2} s, ratio {ratio:.2}",
        view["events"],
        view["grown_mb"],
        view["peak_mb"],
        view["pages"],
        number(&view, "page_p50_ms")?
    );
    view["part"] = part.into();
    view["steps"] = steps.into();
    view["floor_seconds"] = floor.into();
    view["floor_grown_mb"] = after["grown_mb"].clone();
    view["ratio"] = ratio.into();
    tell(json, "view", view, &text);
    Ok(())
}

#[tokio::main]
async fn main() -> kit::Result<()> {
    let mut options = kit::options::Options::read();
    let steps = options.value("--steps", 100_000)?;
    let second = (options.text("--view")?, options.text("--page")?, options.text("--floor")?);
    let (json, files) = (options.flag("--json"), kit::place::Recorded::new(&mut options)?);
    options.end()?;
    match second {
        (Some(path), _, _) => view(Path::new(&path), steps, false).await,
        (_, Some(path), _) => view(Path::new(&path), steps, true).await,
        (_, _, Some(path)) => kit::journal::print_reading(&path, "long", false),
        _ => {
            record(&files.draft(), steps).await?;
            let path = files.settled()?;
            measure(&path, steps, false, json)?;
            measure(&path, steps, true, json)
        }
    }
}
