//! What the code of a workflow can reach, and the shortest way there.
//!
//! Promise: a reference counts as a call. Bodies of steps, other workflows and logging are not entered; the engine's own
//! code is followed only where it is generic over types of the workspace.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::allow::{Allow, Allows, Kinds};
use crate::graph::{Id, Kind};
use crate::program::{Program, Root};
use crate::rules::{Level, Owner, forgets_order, is_foreign};

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

/// A node, and whether it is reached as the engine's generic code for a type of the workspace: what the engine itself does
/// there does not count.
type At = (Id, bool);

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
    /// Helpers at which walks ended, because their authors call them deterministic.
    believed: RefCell<BTreeSet<Id>>,
    /// Kinds that a workflow allows, and in which nothing was found.
    unused: RefCell<BTreeSet<(String, String)>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(program: &'a Program<'a>, allows: &'a Allows) -> Self {
        Self { program, allows, believed: RefCell::default(), unused: RefCell::default() }
    }

    /// Everything that the workflow names and may not, each by the shortest way to it.
    pub(crate) fn findings(&self, root: &Root) -> Vec<Finding> {
        let mut found = Vec::new();
        for (kinds, stops) in self.allows.walks() {
            self.walk(root, &kinds, &stops, &mut found);
        }
        let is_unused = |kind: &String| found.iter().all(|found| found.kind != kind);
        let unused = root.allowed.iter().filter(|kind| is_unused(kind) && self.program.rules.has(kind));
        self.unused.borrow_mut().extend(unused.map(|kind| (root.name.clone(), kind.clone())));
        found.retain(|found| !root.allowed.contains(found.kind));
        found
    }

    /// What definitions and helpers say that is not needed, after all walks.
    pub(crate) fn stale(&self) -> Vec<String> {
        let unused = self.unused.borrow();
        let unused = unused.iter().map(|(workflow, kind)| {
            format!(
                "workflow `{workflow}` allows `{kind}`, and reaches none: remove it, unless the compiler asks for it"
            )
        });
        let believed = self.believed.borrow().clone();
        let believed = believed.into_iter().filter(|id| {
            let root = Root { name: String::new(), id: *id, allowed: HashSet::new() };
            self.findings(&root).is_empty()
        });
        let believed = believed.map(|id| {
            let name = self.program.named(id).name.plain();
            format!(
                "`{name}` is called deterministic, and nothing in it could be otherwise: remove the attribute"
            )
        });
        unused.chain(believed).collect()
    }

    fn walk(&self, root: &Root, kinds: &Kinds, stops: &[&Allow], found: &mut Vec<Finding>) {
        let start = (root.id, false);
        let mut reached =
            HashMap::from([(start, Reached { owner: Owner::Local, behind: Owner::Local, from: None })]);
        let mut queue = VecDeque::from([start]);
        // Once for each kind and place in the workspace: a client of HTTP has a hundred ways to the clock.
        let mut told = HashSet::new();
        while let Some(at) = queue.pop_front() {
            let here = reached[&at];
            let mut tell = |kind, level, source: String, offset| {
                let chain = self.chain(&reached, at, offset);
                let place = chain.iter().rfind(|frame| frame.local);
                if told.insert((kind, place.map(|frame| (frame.function.clone(), frame.line)))) {
                    found.push(Finding { workflow: root.name.clone(), kind, level, source, chain });
                }
            };
            if self.program.exposes(at.0) && !at.1 && kinds.include("address") {
                let begin = self.program.graph.node(at.0).place.map_or(0, |place| place.start);
                tell("address", Level::Error, "an address as a number".into(), begin);
            }
            let mut next = Vec::new();
            for &(to, offset) in &self.program.graph.node(at.0).references {
                let step = self.step(at, here, to);
                if let Some((kind, level)) = step.door.filter(|(kind, _)| kinds.include(kind)) {
                    tell(kind, level, self.program.path(to).to_owned(), offset);
                }
                next.extend(step.follow.map(|under| ((to, under), offset)));
            }
            for (to, offset) in next {
                let named = self.program.named(to.0);
                if reached.contains_key(&to) || stops.iter().any(|stop| stop.covers(&named.name)) {
                    continue;
                }
                if self.program.is_called_deterministic(to.0) {
                    self.believed.borrow_mut().insert(to.0);
                    continue;
                }
                let owner = named.owner.unwrap_or(here.owner);
                let behind = named.owner.filter(|of| *of != Owner::Std).unwrap_or(here.behind);
                reached.insert(to, Reached { owner, behind, from: Some((at, offset)) });
                queue.push_back(to);
            }
        }
    }

    fn step(&self, (from, under): At, here: Reached, to: Id) -> Step {
        let (named, node) = (self.program.named(to), self.program.graph.node(to));
        if named.owner == Some(Owner::Log) || is_barrier(&named.name.path) {
            return Step::default();
        }
        if !under && let Some(door) = self.program.rules.door(&named.name, here.owner) {
            return self.at_door(from, here, to, door.kind, door.calls_back);
        }
        if self.program.rules.is_closed(&named.name.path) {
            return Step::default();
        }
        let is_own = here.owner == Owner::Local && !under;
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
                let level = if self.computes_once(from) { Level::Note } else { Level::Error };
                Some((kind, level))
            }
            _ => None,
        };
        Step { door, follow: self.follow(to, under) }
    }

    /// A name of the table is reached.
    fn at_door(&self, from: Id, here: Reached, to: Id, kind: &'static str, calls_back: bool) -> Step {
        let (path, from_path) = (self.program.path(to), self.program.path(from));
        if kind == "hash" {
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
        let level = if kind == "hash" && self.forgets(from) { Level::Note } else { Level::Error };
        Step { door: Some((kind, level)), follow: calls_back.then_some(false) }
    }

    /// Of the engine's own values only what is generic over the workspace's types is looked into.
    fn follow(&self, to: Id, under: bool) -> Option<bool> {
        let named = self.program.named(to);
        let is_mine = || self.program.mentions_local(&named.name);
        match named.owner {
            Some(Owner::Local) => Some(false),
            Some(Owner::Engine) => is_mine().then_some(true),
            None => Some(under),
            Some(_) if under || self.program.mentions_engine(&named.name) => {
                is_mine().then(|| under || self.program.is_about_engine(&named.name))
            }
            Some(_) => Some(false),
        }
    }

    /// Whether `from` does with the entries of maps only what their order does not show in: as many such uses as maps.
    fn forgets(&self, from: Id) -> bool {
        let references = &self.program.graph.node(from).references;
        let is_walk = |to: Id| {
            let door = self.program.rules.door(&self.program.named(to).name, Owner::Local);
            door.is_some_and(|door| door.kind == "hash")
        };
        let walks = references.iter().filter(|(to, _)| is_walk(*to)).count();
        let uses = references.iter().filter(|(to, _)| forgets_order(&self.program.named(*to).name)).count();
        walks <= uses
    }

    /// Whether `from` looks at statics through a cell whose first value is computed by code that is looked at itself.
    fn computes_once(&self, from: Id) -> bool {
        const CELLS: [&str; 6] = [
            "<std::sync::lazy_lock::LazyLock as core::ops::deref::Deref>",
            "std::sync::lazy_lock::LazyLock::force",
            "std::sync::once_lock::OnceLock::get_or_init",
            "<once_cell::sync::Lazy as core::ops::deref::Deref>",
            "once_cell::sync::Lazy::force",
            "once_cell::sync::OnceCell::get_or_init",
        ];
        let references = &self.program.graph.node(from).references;
        references.iter().any(|(to, _)| CELLS.iter().any(|cell| self.program.path(*to).starts_with(cell)))
    }

    /// The way from the workflow to a reference at `offset` in `last`: the frames that a reader knows.
    fn chain(&self, reached: &HashMap<At, Reached>, last: At, offset: u64) -> Vec<Frame> {
        let mut hops = vec![(last.0, offset)];
        let mut at = last;
        while let Some((from, offset)) = reached.get(&at).and_then(|here| here.from) {
            hops.push((from.0, offset));
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

/// A step's body may do as it likes, and another workflow is looked at for itself. Arguments are encoded in workflow code.
fn is_barrier(path: &str) -> bool {
    if !path.contains(" as aether_core::") {
        return false;
    }
    let of_step =
        path.rsplit_once("Step>::").is_some_and(|(_, method)| !method.contains("::") && method != "encode");
    of_step || path.ends_with("Workflow>::run")
}
