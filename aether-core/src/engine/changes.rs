//! Which runs need which version of a mark: what must be known before the code of an older path is deleted.
//!
//! Promise: reading executes nothing and writes nothing. A run that cannot be judged is listed as such, and no advice calls
//! safe what it may need.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::definition::def::Change;
use crate::engine::advance::drive::DriveEnd;
use crate::engine::advance::read::read;
use crate::engine::inner::{Engine, Inner};
use crate::engine::verify::replay;
use crate::journal::version_marks::KnownVersion;
use crate::run::fault::Fault;
use crate::store::error::StoreError;
use crate::store::filter::RunFilter;
use crate::store::records::RunRecord;
use crate::vocabulary::id::RunId;

/// Runs that are read at once.
const PAGE: usize = 200;
/// Ids that are listed of a group of runs.
const LISTED: usize = 100;

/// One mark, and the runs that have passed it: one line of [`Engine::changes`].
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeReport {
    /// Name of the mark.
    pub name: String,
    /// Where the linked workflows ask for it. Empty where none does any more.
    pub places: Vec<ChangePlace>,
    /// The versions that runs have, from the lowest.
    pub versions: Vec<VersionUse>,
    /// Open runs of which it is not known whether they have passed the mark, because they do not fit the code of this
    /// program.
    pub unclear: RunGroup,
    /// What may be done about the mark.
    pub advice: ChangeAdvice,
}

/// Where a workflow asks for a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePlace {
    /// Name of the workflow.
    pub workflow: &'static str,
    /// Source file.
    pub file: &'static str,
    /// The mark as its code has it.
    pub change: Change,
}

/// The runs that have one version of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionUse {
    /// The version.
    pub version: u32,
    /// The runs passed the mark before the code had it, or before that was recorded: they have the lowest version.
    pub unmarked: bool,
    /// Runs that have not ended. They need the path of this version.
    pub open: RunGroup,
    /// Runs that have ended and are kept. They need it for [`Engine::verify`] alone.
    pub ended: RunGroup,
}

/// A number of runs, and the ids of the newest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunGroup {
    /// How many there are.
    pub count: u64,
    /// Up to 100 of them, newest first.
    pub ids: Vec<RunId>,
}

impl RunGroup {
    fn add(&mut self, run: &RunId) {
        self.count += 1;
        if self.ids.len() < LISTED {
            self.ids.push(run.clone());
        }
    }
}

/// What may be done about a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeAdvice {
    /// Open runs need the lowest version of the range.
    Needed,
    /// No open run needs a version below this one: the lower end of the range may be raised to it, and the paths below it
    /// deleted.
    Raise {
        /// The lowest version that an open run may need.
        to: u32,
    },
    /// The range has one version, and no open run needs another: the mark may be dropped.
    Drop,
    /// Open runs have versions that the code has no path for: they wait for a build that has.
    Missing,
    /// Whether open runs need the lowest version is not known.
    Unclear,
    /// No workflow of this program asks for the mark any more. Nothing needs to be done.
    Gone,
}

impl fmt::Display for ChangeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name)?;
        if let Some((from, to)) = range(&self.places) {
            write!(f, " ({from}..={to})")?;
        }
        let lowest = self.versions.iter().find(|version| version.open.count > 0);
        match (&self.advice, lowest) {
            (ChangeAdvice::Needed, Some(VersionUse { version, open, .. })) => {
                write!(f, ": version {version} is needed by {open}")
            }
            (ChangeAdvice::Missing, Some(VersionUse { version, open, .. })) => {
                write!(f, ": {open} wait for a build that has version {version}")
            }
            (ChangeAdvice::Needed | ChangeAdvice::Missing, None) => f.write_str(": it is needed"),
            (ChangeAdvice::Raise { to }, _) => {
                write!(f, ": no open run needs a version below {to}: safe to raise the lower end to {to}")
            }
            (ChangeAdvice::Drop, _) => {
                f.write_str(": no open run needs another version: safe to drop the mark")
            }
            (ChangeAdvice::Unclear, _) => {
                write!(f, ": not known of {}, which do not fit this program's code", self.unclear)
            }
            (ChangeAdvice::Gone, _) => f.write_str(": no workflow asks for it any more"),
        }
    }
}

impl fmt::Display for RunGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<&str> = self.ids.iter().take(5).map(RunId::as_str).collect();
        let rest = if self.count > 5 { ", .." } else { "" };
        let runs = if self.count == 1 { "run" } else { "runs" };
        write!(f, "{} open {runs} ({}{rest})", self.count, shown.join(", "))
    }
}

/// The versions that the places have a path for.
fn range(places: &[ChangePlace]) -> Option<(u32, u32)> {
    let from = places.iter().map(|place| place.change.from).min()?;
    let to = places.iter().map(|place| place.change.to).max()?;
    Some((from, to))
}

impl Engine {
    /// Which versions of the marks of `cx.version` the runs in the store have, and what follows from that: whether the
    /// lower end of a range may be raised, whether a mark may be dropped, or which runs still need it.
    ///
    /// Reads every journal. A run that lacks the record of a mark is replayed without executing anything, which tells
    /// whether it has passed the mark.
    ///
    /// ```
    /// # use aether_core::engine::{ChangeAdvice, Engine};
    /// # async fn example(engine: &Engine) -> Result<(), Box<dyn std::error::Error>> {
    /// for change in engine.changes().await? {
    ///     // `use-baz` (1..=2): version 1 is needed by 2 open runs (order-17, order-9)
    ///     println!("{change}");
    ///     if change.advice == ChangeAdvice::Drop {
    ///         println!("delete it in {:?}", change.places);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub async fn changes(&self) -> Result<Vec<ChangeReport>, StoreError> {
        let mut found = Found::of(&self.inner);
        let mut filter = RunFilter::new().limit(PAGE);
        loop {
            let page = self.inner.shared.store.runs(filter.clone()).await?;
            let Some(last) = page.last() else { break };
            let next = filter.clone().after(last.place);
            for run in page {
                let versions = versions(&self.inner, &run.id, &found.names()).await?;
                found.add(&run, versions);
            }
            filter = next;
        }
        Ok(found.reports())
    }
}

/// What is known of the marks of one run.
struct RunVersions {
    known: Vec<KnownVersion>,
    /// Whether the marks that are missing were not passed, and not merely not found.
    complete: bool,
}

async fn versions(
    inner: &Arc<Inner>,
    run: &RunId,
    names: &BTreeSet<String>,
) -> Result<RunVersions, StoreError> {
    let mut recorded = match read(&*inner.shared.store, run).await {
        Ok(Some(recorded)) => recorded,
        // Purged since it was listed.
        Ok(None) => return Ok(RunVersions { known: Vec::new(), complete: true }),
        Err(Fault::Store(error)) => return Err(error),
        Err(_) => return Ok(RunVersions { known: Vec::new(), complete: false }),
    };
    let known = recorded.history.marks().all();
    let has = |name: &String| known.iter().any(|known| known.change == *name);
    if names.iter().all(has) {
        return Ok(RunVersions { known, complete: true });
    }
    match replay(inner, run, recorded).await {
        Ok(replayed) => {
            let complete = match &replayed.drive_end {
                DriveEnd::Fault(fault) => matches!(fault, Fault::Unrecorded { .. }),
                _ => true,
            };
            Ok(RunVersions { known: replayed.run.history(|history| history.marks().all()), complete })
        }
        Err(Fault::Store(error)) => Err(error),
        Err(_) => Ok(RunVersions { known, complete: false }),
    }
}

/// The marks of the linked workflows and of the runs that were read so far, by name.
struct Found(BTreeMap<String, FoundMark>);

#[derive(Default)]
struct FoundMark {
    places: Vec<ChangePlace>,
    /// By version, and whether it is recorded.
    versions: BTreeMap<(u32, bool), (RunGroup, RunGroup)>,
    unclear: RunGroup,
}

impl Found {
    fn of(inner: &Inner) -> Self {
        let mut found: BTreeMap<String, FoundMark> = BTreeMap::new();
        for def in inner.workflows().into_iter().map(|linked| linked.def) {
            for change in def.changes {
                let place = ChangePlace { workflow: def.name, file: def.file, change: *change };
                found.entry(change.name.to_owned()).or_default().places.push(place);
            }
        }
        Self(found)
    }

    /// Names of the marks that linked workflows ask for.
    fn names(&self) -> BTreeSet<String> {
        let asked = self.0.iter().filter(|(_, mark)| !mark.places.is_empty());
        asked.map(|(name, _)| name.clone()).collect()
    }

    fn add(&mut self, run: &RunRecord, versions: RunVersions) {
        let is_open = !run.status.is_terminal();
        for KnownVersion { change, version, recorded } in &versions.known {
            let mark = self.0.entry(change.clone()).or_default();
            let (open, ended) = mark.versions.entry((*version, *recorded)).or_default();
            if is_open { open } else { ended }.add(&run.id);
        }
        if versions.complete || !is_open {
            return;
        }
        for (name, mark) in &mut self.0 {
            if !mark.places.is_empty() && versions.known.iter().all(|known| known.change != *name) {
                mark.unclear.add(&run.id);
            }
        }
    }

    fn reports(self) -> Vec<ChangeReport> {
        self.0.into_iter().map(|(name, mark)| mark.report(name)).collect()
    }
}

impl FoundMark {
    fn report(self, name: String) -> ChangeReport {
        let advice = self.advice();
        let Self { places, versions, unclear } = self;
        let versions = versions
            .into_iter()
            .map(|((version, recorded), (open, ended))| VersionUse {
                version,
                unmarked: !recorded,
                open,
                ended,
            })
            .collect();
        ChangeReport { name, places, versions, unclear, advice }
    }

    fn advice(&self) -> ChangeAdvice {
        let Some((from, to)) = range(&self.places) else { return ChangeAdvice::Gone };
        let open = self.versions.iter().filter(|(_, (open, _))| open.count > 0);
        let lowest = open.map(|((version, _), _)| *version).min();
        match lowest {
            Some(lowest) if lowest < from => ChangeAdvice::Missing,
            Some(lowest) if lowest == from && from < to => ChangeAdvice::Needed,
            _ if self.unclear.count > 0 => ChangeAdvice::Unclear,
            _ if from >= to => ChangeAdvice::Drop,
            Some(lowest) => ChangeAdvice::Raise { to: lowest.min(to) },
            None => ChangeAdvice::Raise { to },
        }
    }
}
