//! What the code of a workflow can reach, and the shortest way there.
//!
//! Promise: a reference counts as a call. Bodies of steps, other workflows and logging are not entered; the engine's own
//! code is followed only where it is generic over types of the workspace.

use std::collections::{BTreeSet, HashSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::allow::{Allow, Allows, Kinds};
use crate::graph::nodes::Id;
use crate::graph::parts::Kind;
use crate::mir::Oddity;
use crate::names::Name;
use crate::parallel;
use crate::program::{Named, Program, Root};
use crate::rules::{Door, Level, Owner, counts_up, forgets_order, is_foreign};

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

/// A node as it is reached; the same one counts otherwise where another reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct At {
    id: Id,
    /// As the engine's generic code for a type of the workspace: what the engine itself does there does not count.
    is_under: bool,
    /// By the workspace, or by the standard library's code that the workspace called.
    is_near: bool,
}

/// What is known of a node that was reached.
#[derive(Clone, Copy, Debug)]
struct Reached {
    owner: Owner,
    /// Of the standard library's generic code, who called it.
    behind: Owner,
    /// Who named it, and where.
    from: Option<(At, u64)>,
}

/// What becomes of one reference.
#[derive(Debug, Default)]
struct Step {
    door: Option<(&'static str, Level)>,
    /// Whether the walk goes on there, and as what.
    follow: Option<bool>,
}

/// Looks for what workflows reach.
pub(crate) struct Walk<'a> {
    program: &'a Program<'a>,
    allows: &'a Allows,
}

/// What the walk from one root found, and what it believed.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) findings: Vec<Finding>,
    /// Helpers at which it ended, because their authors call them deterministic.
    believed: BTreeSet<Id>,
    /// Functions at which it ended, because the project lets them pass.
    let_pass: BTreeSet<Id>,
    /// Kinds that the definition allows, and in which nothing was found.
    unused: Vec<String>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(program: &'a Program<'a>, allows: &'a Allows) -> Self {
        Self { program, allows }
    }

    /// Walks from each of `roots`, on `jobs` threads; in the order of the roots.
    pub(crate) fn all(&self, roots: &[Root], jobs: usize) -> Vec<Looked> {
        let looked = parallel::map(roots, jobs, |root| self.from(root));
        // What panicked is a bug of the walk, and nothing may be called clean.
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Everything that the workflow names and may not, each by the shortest way to it.
    fn from(&self, root: &Root) -> Looked {
        let mut looked = Looked::default();
        for (kinds, stops) in self.allows.walks() {
            self.walk(root, &kinds, &stops, &mut looked);
        }
        let is_found = |kind: &str| looked.findings.iter().any(|found| found.kind == kind);
        let unused = root.allowed.iter().filter(|kind| self.program.rules.has(kind) && !is_found(kind));
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
            looked.iter().flat_map(|looked| looked.believed.iter().copied()).collect();
        let believed = believed.into_iter().filter(|id| !self.hides(*id, &Kinds::AllBut(Vec::new())));
        let believed = believed.map(|id| {
            let name = self.program.named(id).name.plain();
            format!(
                "`{name}` is called deterministic, and nothing in it could be otherwise: remove the attribute"
            )
        });
        let let_pass: BTreeSet<Id> =
            looked.iter().flat_map(|looked| looked.let_pass.iter().copied()).collect();
        let is_used = |entry: &Allow| {
            let mut covered = let_pass.iter().filter(|id| entry.covers(&self.program.named(**id).name));
            covered.any(|id| self.hides(*id, &entry.kinds()))
        };
        unused.chain(believed).chain(self.allows.stale(is_used)).collect()
    }

    /// Whether something of these kinds is reached from a function at which walks end.
    pub(crate) fn hides(&self, id: Id, kinds: &Kinds) -> bool {
        let (root, mut looked) =
            (Root { name: String::new(), id, allowed: HashSet::new() }, Looked::default());
        self.walk(&root, kinds, &[], &mut looked);
        !looked.findings.is_empty()
    }

    fn walk(&self, root: &Root, kinds: &Kinds, stops: &[&Allow], looked: &mut Looked) {
        let start = At { id: root.id, is_under: false, is_near: true };
        let owner = self.program.named(root.id).owner.unwrap_or(Owner::Local);
        let mut reached: FxHashMap<At, Reached> = FxHashMap::default();
        reached.insert(start, Reached { owner, behind: owner, from: None });
        let mut queue = VecDeque::from([start]);
        // Once for each kind and place in the workspace: a client of HTTP has a hundred ways to the clock.
        let mut told = HashSet::new();
        while let Some(at) = queue.pop_front() {
            let here = reached[&at];
            let mut tell = |kind, level, source: String, offset| {
                let chain = self.chain(&reached, at, offset);
                let place = chain.iter().rfind(|frame| frame.local);
                if told.insert((kind, level, place.map(|frame| (frame.function.clone(), frame.line)))) {
                    looked.findings.push(Finding { workflow: root.name.clone(), kind, level, source, chain });
                }
            };
            for oddity in self.program.told_by_mir(at.id).iter().filter(|_| !at.is_under) {
                if let Some((kind, what)) = oddity.source().filter(|(kind, _)| kinds.include(kind)) {
                    let begin = self.program.graph.node(at.id).place.map_or(0, |place| place.start);
                    tell(kind, Level::Error, what.into(), begin);
                }
            }
            let mut next = Vec::new();
            for &(to, offset) in &self.program.graph.node(at.id).references {
                let step = self.step(at, here, to);
                if let Some((kind, level)) = step.door.filter(|(kind, _)| kinds.include(kind)) {
                    tell(kind, level, self.program.path(to).to_owned(), offset);
                }
                next.extend(step.follow.map(|is_under| (to, is_under, offset)));
            }
            for (id, is_under, offset) in next {
                let named = self.program.named(id);
                let owner = named.owner.unwrap_or(here.owner);
                let behind = named.owner.filter(|of| *of != Owner::Std).unwrap_or(here.behind);
                let to = At { id, is_under, is_near: behind == Owner::Local };
                if reached.contains_key(&to) {
                    continue;
                }
                if stops.iter().any(|stop| stop.covers(&named.name)) {
                    looked.let_pass.insert(id);
                    continue;
                }
                if self.program.is_called_deterministic(id) {
                    looked.believed.insert(id);
                    continue;
                }
                reached.insert(to, Reached { owner, behind, from: Some((at, offset)) });
                queue.push_back(to);
            }
        }
    }

    fn step(&self, at: At, here: Reached, to: Id) -> Step {
        let (named, node) = (self.program.named(to), self.program.graph.node(to));
        if named.is_barrier {
            return Step::default();
        }
        if !at.is_under
            && let Some(door) = self.door(named, here)
        {
            return self.at_door(at.id, here, to, door);
        }
        if named.is_closed {
            return Step::default();
        }
        let is_own = here.owner == Owner::Local && !at.is_under;
        // C that a crate of the workspace declares, and of which nothing is known. The trap of simulations defines some.
        let may_be_foreign = named.owner == Some(Owner::Foreign) && !named.name.shown.contains("::");
        if is_own
            && may_be_foreign
            && matches!(node.kind, Kind::Elsewhere | Kind::Code)
            && is_foreign(&named.name.path)
        {
            return Step { door: Some(("foreign", Level::Error)), follow: None };
        }
        let is_made =
            ["__CALLSITE", "__RUST_STD_INTERNAL_VAL"].iter().any(|made| named.name.shown.contains(made));
        let door = match node.kind {
            Kind::Static | Kind::ThreadLocal if is_own && named.owner == Some(Owner::Local) && !is_made => {
                let kind = if node.kind == Kind::Static { "static" } else { "thread_local" };
                Some((kind, self.level_of_static(at.id)))
            }
            _ => None,
        };
        Step { door, follow: self.follow(to, at.is_under) }
    }

    fn door(&self, named: &Named, here: Reached) -> Option<Door> {
        self.program.rules.door(named.rule, &named.name, here.owner, here.behind)
    }

    /// A name of the table is reached.
    fn at_door(&self, from: Id, here: Reached, to: Id, door: Door) -> Step {
        let (path, from_path) = (self.program.path(to), self.program.path(from));
        if door.kind == "hash" {
            // A map that copies or compares itself does not show its order, nor does the `Debug` of a foreign type that is
            // shown to nobody.
            let is_own = from_path.trim_start_matches('<').starts_with("std::collections::hash::");
            let is_shown = here.behind == Owner::Registry && path.ends_with("core::fmt::Debug>::fmt");
            if is_own || is_shown {
                return Step::default();
            }
        }
        if self.program.named(from).is_quiet {
            return Step::default();
        }
        let level = if door.kind == "hash" && self.forgets(from) { Level::Note } else { door.level };
        Step { door: Some((door.kind, level)), follow: door.calls_back.then_some(false) }
    }

    /// Of the engine's own values only what is generic over the workspace's types is looked into.
    fn follow(&self, to: Id, under: bool) -> Option<bool> {
        let named = self.program.named(to);
        match named.owner {
            Some(Owner::Local) => Some(false),
            Some(Owner::Engine) => named.mentions_local.then_some(true),
            None => Some(under),
            Some(_) if under || named.mentions_engine => {
                named.mentions_local.then(|| under || self.program.is_about_engine(&named.name))
            }
            Some(_) => Some(false),
        }
    }

    /// Whether `from` does with the entries of maps only what their order does not show in: as many such uses as maps.
    fn forgets(&self, from: Id) -> bool {
        let references = &self.program.graph.node(from).references;
        let is_walk = |to: Id| {
            let named = self.program.named(to);
            let door = self.program.rules.door(named.rule, &named.name, Owner::Local, Owner::Local);
            door.is_some_and(|door| door.kind == "hash" && door.level == Level::Error)
        };
        let is_use = |to: Id| forgets_order(&self.program.named(to).name) || self.is_blind_fold(to);
        let walks = references.iter().filter(|(to, _)| is_walk(*to)).count();
        let uses = references.iter().filter(|(to, _)| is_use(*to)).count();
        walks <= uses
    }

    /// Whether this is a fold over a hash map whose closure adds whole numbers, or the like.
    fn is_blind_fold(&self, fold: Id) -> bool {
        let name = &self.program.named(fold).name;
        let is_fold = name.path.ends_with("::fold") && name.shown.contains("std::collections::hash::");
        if !is_fold {
            return false;
        }
        // Folds of the standard library call one another before the closure is called.
        let (mut ways, mut seen) = (vec![fold], HashSet::new());
        while let Some(at) = ways.pop().filter(|_| seen.len() < 64) {
            for &(to, _) in &self.program.graph.node(at).references {
                if self.program.told_by_mir(to).contains(&Oddity::CommutativeFold) {
                    return true;
                }
                let is_fold = self.program.path(to).contains("fold");
                if is_fold && seen.insert(to) {
                    ways.push(to);
                }
            }
        }
        false
    }

    /// What is computed once in a cell is looked at itself, and what is kept there may be a cache: unless it counts.
    fn level_of_static(&self, from: Id) -> Level {
        const CELLS: [&str; 6] = [
            "<std::sync::lazy_lock::LazyLock as core::ops::deref::Deref>",
            "std::sync::lazy_lock::LazyLock::force",
            "std::sync::once_lock::OnceLock::get_or_init",
            "<once_cell::sync::Lazy as core::ops::deref::Deref>",
            "once_cell::sync::Lazy::force",
            "once_cell::sync::OnceCell::get_or_init",
        ];
        let references = &self.program.graph.node(from).references;
        let any =
            |is: &dyn Fn(&Name) -> bool| references.iter().any(|(to, _)| is(&self.program.named(*to).name));
        let is_lazy_static = |name: &Name| name.shown.contains("lazy_static::lazy::Lazy");
        let is_cell =
            any(&|name| is_lazy_static(name) || CELLS.iter().any(|cell| name.path.starts_with(cell)));
        if is_cell && !any(&counts_up) { Level::Note } else { Level::Error }
    }

    /// The way from the workflow to a reference at `offset` in `last`: the frames that a reader knows.
    fn chain(&self, reached: &FxHashMap<At, Reached>, last: At, offset: u64) -> Vec<Frame> {
        let mut hops = vec![(last.id, offset)];
        let mut at = last;
        while let Some((from, offset)) = reached.get(&at).and_then(|here| here.from) {
            hops.push((from.id, offset));
            at = from;
        }
        let mut frames: Vec<Frame> = Vec::new();
        for (from, offset) in hops.into_iter().rev() {
            let named = self.program.named(from);
            let is_known = matches!(named.owner, Some(Owner::Local | Owner::Registry));
            let is_generated =
                named.name.path.contains("Workflow>::run") || named.name.path.contains("Step>::call");
            if self.program.graph.node(from).kind != Kind::Code || !is_known || is_generated {
                continue;
            }
            let (file, line) = self.program.line(from, offset).unzip();
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
