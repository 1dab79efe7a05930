//! The tools the model may call: three that read the tree, and one that changes the world.
//!
//! Promise: which tree is read and where the report goes stands in the run's own recorded input. A model cannot name
//! another place, and a process that resumes a run of another process works on that run's tree.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use aether::definition::Workflow as _;
use aether::effect::Tool;
use aether::prelude::*;
use aether::store::Store;
use aether::view::RunView;

use crate::agent::{Brief, research};
use crate::report::{self, Receipt};
use crate::tree::{Hits, Listing, Slice, Tree};

/// Everything the model may call.
pub(crate) fn all() -> (Tool, Tool, Tool, Tool) {
    (list_files::tool(), search_text::tool(), read_slice::tool(), write_report::tool())
}

/// List the text and source files of the tree.
#[step(effect = "read")]
pub(crate) async fn list_files(
    cx: &mut StepCx,
    /// Folder to list, from the root of the tree; leave it out for the whole tree.
    folder: Option<String>,
) -> Result<Listing> {
    let tree = begin(cx).await?;
    on_a_thread(move || tree.list(folder.as_deref().unwrap_or_default())).await
}

/// Find the lines that hold a text, whatever its case. No patterns: the text is taken as it is.
#[step(effect = "read")]
pub(crate) async fn search_text(
    cx: &mut StepCx,
    /// The text to find.
    text: String,
) -> Result<Hits> {
    let tree = begin(cx).await?;
    on_a_thread(move || tree.search(&text)).await
}

/// Read some lines of one file.
#[step(effect = "read")]
pub(crate) async fn read_slice(
    cx: &mut StepCx,
    /// The file, from the root of the tree.
    path: String,
    /// Number of the first line to read, from 1.
    first: usize,
    /// How many lines to read, at most 80.
    lines: usize,
) -> Result<Slice> {
    let tree = begin(cx).await?;
    on_a_thread(move || tree.slice(&path, first, lines)).await
}

/// Write the finished report to its file. Works once: call it when all the evidence is there.
#[step(
    effect = "tool",
    irreversible,
    key = |title| the_report(title),
    on_unknown = "probe",
    probe = look_for_the_report
)]
pub(crate) async fn write_report(
    cx: &mut StepCx,
    /// A short headline.
    title: String,
    /// The report in Markdown, with `file:line` for every claim.
    markdown: String,
) -> Result<Receipt> {
    begin(cx).await?;
    let brief = brief(cx).await?;
    let text = report::text(&title, &markdown, cx.idempotency_key().as_str());
    let attempt = cx.attempt();
    let receipt = on_a_thread(move || report::place(&brief.report, &text, attempt)).await?;
    cx.changed("file", &receipt.path.display().to_string(), "create");
    Ok(receipt)
}

/// The business key: one report for each run, whatever it says. A second one is refused.
fn the_report(_title: &str) -> &'static str {
    "the report"
}

/// Asked after a crash between "about to write" and "written": a file with this call's mark means that it happened,
/// no file that it did not. A file without this mark proves neither.
async fn look_for_the_report(cx: &mut StepCx, _title: String, _markdown: String) -> Result<Probe<Receipt>> {
    let Brief { report, .. } = brief(cx).await?;
    let key = cx.idempotency_key();
    on_a_thread(move || match report::writer(&report)? {
        None => Ok(Probe::DidNotHappen),
        Some(writer) if writer == key.as_str() => Ok(Probe::Happened(report::receipt(&report)?)),
        Some(_) => Ok(Probe::Unknown),
    })
    .await
}

/// What the tools need from the program.
#[derive(Debug)]
pub(crate) struct Desk {
    /// Where a run's input is looked up.
    pub(crate) store: Arc<dyn Store>,
    /// Gets one line for every call whose body really runs.
    pub(crate) side_log: Option<PathBuf>,
}

/// Notes the call, and opens the tree of its run.
async fn begin(cx: &StepCx) -> Result<Tree> {
    if let Some(path) = &cx.dep::<Desk>()?.side_log {
        let mut log = OpenOptions::new().create(true).append(true).open(path)?;
        log.write_all(format!("{}\n", cx.idempotency_key()).as_bytes())?;
    }
    let Brief { tree, .. } = brief(cx).await?;
    on_a_thread(move || Tree::open(&tree)).await
}

/// The input of the run that `cx` belongs to.
async fn brief(cx: &StepCx) -> Result<Brief> {
    let view = RunView::load(&*cx.dep::<Desk>()?.store, cx.run_id()).await?;
    let input = view.input.ok_or_else(|| Failure::permanent("the run has no input"))?;
    Ok(research::decode(&input)?)
}

/// Keeps slow disks away from the threads that drive the runs.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await?
}
