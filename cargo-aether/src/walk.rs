//! What the code of a workflow can reach, and the shortest way there.
//!
//! Promise: a reference counts as a call, and what is found of a workflow does not depend on what others are built beside
//! it.

use std::collections::{BTreeSet, HashSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::allow::{Allow, Allows, Kinds};
use crate::graph::nodes::Id;
use crate::graph::parts::Kind;
use crate::parallel;
use crate::program::{Program, Root};
use crate::rules::{Level, Owner};
use crate::steps::{Met, Source, Steps};
use crate::ways::{Number, Ways, hides};

/// One hop of a chain: a function that names the next one at this line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Frame {
    pub(crate) function: String,
    /// `null` where the function was built without lines.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// Whether it is code of the workspace.
    pub(crate) local: bool,
}

/// Something that a workflow reaches and may not.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) workflow: String,
    pub(crate) kind: &'static str,
    pub(crate) level: Level,
    /// The door: a name of the standard library, of libc, or of a static.
    pub(crate) source: String,
    pub(crate) chain: Vec<Frame>,
}

/// Who named what was reached, and where.
type CameFrom = FxHashMap<Number, Option<(Number, u64)>>;

/// Looks for what workflows reach.
pub(crate) struct Walk<'a> {
    steps: Steps<'a>,
    allows: &'a Allows,
    /// One for each group of kinds that the project lets pass at the same places.
    ways: Vec<Ways>,
}

/// What the walk from one root found.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) findings: Vec<Finding>,
    /// Kinds that the definition allows, and in which nothing was found.
    unused: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Looks at all that `roots` reach, on `jobs` threads.
    pub(crate) fn new(program: &'a Program<'a>, allows: &'a Allows, roots: &[Root], jobs: usize) -> Self {
        let steps = Steps { program };
        let starts: Vec<&[Id]> = roots.iter().map(|root| root.begins.as_slice()).collect();
        let ways = allows.walks();
        let ways =
            ways.iter().map(|(kinds, stops)| Ways::new(&steps, &starts, (kinds, stops), jobs)).collect();
        Self { steps, allows, ways }
    }

    /// What each of the roots reaches, on `jobs` threads; in the order of the roots.
    pub(crate) fn all(&self, roots: &[Root], jobs: usize) -> Vec<Looked> {
        let numbered: Vec<_> = roots.iter().enumerate().collect();
        parallel::map(&numbered, jobs, |(number, root)| self.from(*number, root))
    }

    /// Everything that the workflow names and may not, each by the shortest way to it.
    fn from(&self, number: usize, root: &Root) -> Looked {
        let mut looked = Looked::default();
        for ways in &self.ways {
            self.walk(ways, &ways.starts[number], root, &mut looked.findings);
        }
        let is_found = |kind: &str| looked.findings.iter().any(|found| found.kind == kind);
        let unused = root.allowed.iter().filter(|kind| self.steps.program.rules.has(kind) && !is_found(kind));
        looked.unused = unused.cloned().collect();
        looked.findings.retain(|found| !root.allowed.contains(found.kind));
        looked
    }

    /// What definitions, helpers and `aether.toml` say that is not needed.
    pub(crate) fn stale(&self, roots: &[Root], looked: &[Looked]) -> Vec<String> {
        let unused = roots.iter().zip(looked).flat_map(|(root, looked)| {
            looked.unused.iter().map(move |kind| {
                let workflow = &root.name;
                format!(
                    "workflow `{workflow}` allows `{kind}`, and reaches none: remove it, unless the compiler asks for it"
                )
            })
        });
        let believed: BTreeSet<Id> =
            self.ways.iter().flat_map(|ways| ways.believed.iter().copied()).collect();
        let believed = believed.into_iter().filter(|id| !hides(&self.steps, *id, &Kinds::AllBut(Vec::new())));
        let believed = believed.map(|id| {
            let name = self.steps.program.named(id).name.plain();
            format!(
                "`{name}` is called deterministic, and nothing in it could be otherwise: remove the attribute"
            )
        });
        let let_pass: BTreeSet<Id> =
            self.ways.iter().flat_map(|ways| ways.let_pass.iter().copied()).collect();
        let is_used = |entry: &Allow| {
            let mut covered = let_pass.iter().filter(|id| entry.covers(&self.steps.program.named(**id).name));
            covered.any(|id| hides(&self.steps, *id, &entry.kinds()))
        };
        unused.chain(believed).chain(self.allows.stale(is_used)).collect()
    }

    /// Goes only where something is met further on: of most workflows, nowhere.
    fn walk(&self, ways: &Ways, starts: &[Number], root: &Root, findings: &mut Vec<Finding>) {
        // Once for each kind and place in the workspace: a client of HTTP has a hundred ways to the clock.
        let mut told = HashSet::new();
        let mut reached: CameFrom = starts.iter().map(|start| (*start, None)).collect();
        let mut queue: VecDeque<Number> = starts.iter().copied().collect();
        while let Some(at) = queue.pop_front() {
            let way = &ways.all[at as usize];
            for met in &way.met {
                let chain = self.chain(ways, &reached, at, met.offset);
                let place = chain.iter().rfind(|frame| frame.local);
                if told.insert((met.kind, met.level, place.map(|frame| (frame.function.clone(), frame.line))))
                {
                    findings.push(self.finding(root, met, chain));
                }
            }
            for &(next, offset) in way.next.iter().filter(|(next, _)| ways.all[*next as usize].leads) {
                reached.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    Some((at, offset))
                });
            }
        }
    }

    fn finding(&self, root: &Root, met: &Met, chain: Vec<Frame>) -> Finding {
        let source = match met.source {
            Source::Named(id) => self.steps.program.path(id),
            Source::Told(what) => what,
        };
        let (workflow, source) = (root.name.clone(), source.to_owned());
        Finding { workflow, kind: met.kind, level: met.level, source, chain }
    }

    /// The way from the workflow to a reference at `offset` in `last`: the frames that a reader knows.
    fn chain(&self, ways: &Ways, reached: &CameFrom, last: Number, offset: u64) -> Vec<Frame> {
        let (mut hops, mut at) = (vec![(ways.id(last), offset)], last);
        while let Some((from, offset)) = reached.get(&at).copied().flatten() {
            hops.push((ways.id(from), offset));
            at = from;
        }
        let mut frames: Vec<Frame> = Vec::new();
        for (from, offset) in hops.into_iter().rev() {
            let named = self.steps.program.named(from);
            let is_known = matches!(named.owner, Some(Owner::Local | Owner::Registry));
            let is_generated =
                named.name.path.contains("Workflow>::run") || named.name.path.contains("Step>::call");
            if self.steps.program.graph.node(from).kind != Kind::Code || !is_known || is_generated {
                continue;
            }
            let (file, line) = self.steps.program.line(from, offset).unzip();
            let function = named.name.plain();
            // The frames of one function and its closures are one to a reader.
            if frames.last().is_some_and(|before| before.function == function && before.line == line) {
                continue;
            }
            frames.push(Frame { function, file, line, local: named.owner == Some(Owner::Local) });
        }
        frames
    }
}
