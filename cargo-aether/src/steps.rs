//! What becomes of one reference: whether it is a door, and whether there is more to look at behind it.
//!
//! Promise: bodies of steps, other workflows and logging are not entered; the engine's own code is followed only where it
//! is generic over types of the workspace, and where it writes what is recorded.

use std::collections::HashSet;

use crate::graph::nodes::Id;
use crate::graph::parts::Kind;
use crate::mir::told::Oddity;
use crate::names::Name;
use crate::order::{
    JsonMaps, compares, fills_unordered, forgets_order, holds_hashed, is_hashed, is_hashed_head,
    takes_hashed, walks_hashed,
};
use crate::program::{Named, Program};
use crate::rules::{Access, Door, Level, Owner, access, changes_cell, counts_up, is_foreign};
use crate::sorts::sorts_by_keys;

/// As what a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// As what it is.
    Own,
    /// As the engine's generic code for a type of the workspace: what the engine itself does there does not count.
    Engine,
    /// As what writes a value that is recorded, whatever its type: the order of a list is seen there, and that of members is
    /// not, which are sorted before they are compared.
    Recorder,
}

/// A node as it is reached; the same one counts otherwise where another reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct At {
    pub(crate) id: Id,
    pub(crate) role: Role,
    /// Of data without a name, who named them.
    pub(crate) owner: Owner,
    /// Of the standard library's generic code, who called it.
    pub(crate) behind: Owner,
    /// The function that gave a hash collection to the standard library's generic code, which goes through it.
    pub(crate) given_by: Option<Id>,
}

/// Something that may not be reached, where it is named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub(crate) kind: &'static str,
    pub(crate) level: Level,
    pub(crate) source: Source,
    /// Where in the section of who names it.
    pub(crate) offset: u64,
}

/// What was met.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Named(Id),
    /// What only the function's MIR tells.
    Told(&'static str),
}

/// What a node names.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub(crate) met: Vec<Met>,
    /// What there is to look at behind it, and where it is named.
    pub(crate) next: Vec<(At, u64)>,
}

/// What becomes of one reference.
#[derive(Debug, Default)]
struct Step {
    door: Option<(&'static str, Level)>,
    /// Whether the walk goes on there, and as what.
    follow: Option<Role>,
}

/// Where a function names something: in its code, and in its text. What follows a loop may stand before its body in the
/// code, and a call before its arguments in the text.
struct Place {
    offset: u64,
    line: Option<(String, u32)>,
}

impl Place {
    /// Whether it is not before the other one, neither in the code nor in the text.
    fn follows(&self, other: &Self) -> bool {
        self.offset >= other.offset && self.is_below(other) != Some(false)
    }

    /// Whether it is not before the other one in one of them.
    fn may_follow(&self, other: &Self) -> bool {
        self.offset >= other.offset || self.is_below(other) == Some(true)
    }

    /// Whether its line is not before that of the other one, where both are known, and of one file.
    fn is_below(&self, other: &Self) -> Option<bool> {
        let ((file, line), (others_file, others_line)) = (self.line.as_ref()?, other.line.as_ref()?);
        (file == others_file).then_some(line >= others_line)
    }
}

/// Looks at nodes of a program, one by one.
pub(crate) struct Steps<'a> {
    pub(crate) program: &'a Program<'a>,
}

impl Steps<'_> {
    /// Where a walk begins.
    pub(crate) fn start(&self, id: Id) -> At {
        let owner = self.program.named(id).owner.unwrap_or(Owner::Local);
        At { id, role: Role::Own, owner, behind: owner, given_by: None }
    }

    /// Everything that a node names, of all kinds.
    pub(crate) fn around(&self, at: At) -> Around {
        let mut around = Around::default();
        for (kind, what) in self.program.told_by_mir(at.id).iter().filter_map(|oddity| oddity.source()) {
            let offset = self.program.graph.node(at.id).place.map_or(0, |place| place.start);
            if at.role == Role::Own {
                around.met.push(Met { kind, level: Level::Error, source: Source::Told(what), offset });
            }
        }
        for &(to, offset) in self.program.graph.named_by(at.id) {
            if self.is_logged(at.id, to, offset) {
                continue;
            }
            let step = self.step(at, to);
            let met = step.door.map(|(kind, level)| Met { kind, level, source: Source::Named(to), offset });
            around.met.extend(met);
            around.next.extend(step.follow.map(|role| (self.reached(at, to, role), offset)));
        }
        around
    }

    /// Whether this formats something for a line of a log, whose macros do that where they are called. All that a macro of
    /// another crate writes is of the line that calls it; of data that it names, the line is not sure. A macro that makes a text
    /// as well may do something else with it.
    fn is_logged(&self, from: Id, to: Id, offset: u64) -> bool {
        const CALLED_BY_MACROS: [&str; 3] =
            ["tracing::__macro_support::", "tracing_core::callsite::", "log::__private_api::"];
        if !self.program.path(to).starts_with("core::fmt::rt::Argument::new_") {
            return false;
        }
        let is_of_log = |&&(to, _): &&(Id, u64)| {
            let path = self.program.path(to).trim_start_matches('<');
            CALLED_BY_MACROS.iter().any(|called| path.starts_with(called))
        };
        let mut of_logs = self.program.graph.named_by(from).iter().filter(is_of_log).peekable();
        let Some(spot) = of_logs.peek().and_then(|_| self.program.spot(from, offset)) else { return false };
        let spots: Vec<_> = of_logs.filter_map(|(_, at)| self.program.spot(from, *at)).collect();
        let makes_text = || {
            let is_made = |(to, at): &(Id, u64)| {
                self.program.path(*to) == "alloc::fmt::format"
                    && self.program.spot(from, *at).as_ref() == Some(&spot)
            };
            spots.contains(&spot) && self.program.graph.named_by(from).iter().any(is_made)
        };
        spots.iter().any(|of| (&of.0, of.1) == (&spot.0, spot.1)) && !makes_text()
    }

    fn reached(&self, from: At, id: Id, role: Role) -> At {
        let Named { owner, name, .. } = self.program.named(id);
        let owner = *owner;
        // Who shows a list of another crate shows the maps in it.
        let is_of_maps = owner == Some(Owner::Registry)
            && from.behind == Owner::Local
            && name.path.ends_with("core::fmt::Debug>::fmt")
            && holds_hashed(&name.shown);
        let behind = owner.filter(|of| *of != Owner::Std && !is_of_maps).unwrap_or(from.behind);
        let given_by = match owner {
            Some(Owner::Std) if from.owner == Owner::Std => from.given_by,
            Some(Owner::Std) => takes_hashed(name).then_some(from.id),
            _ => None,
        };
        At { id, role, owner: owner.unwrap_or(from.owner), behind, given_by }
    }

    fn step(&self, at: At, to: Id) -> Step {
        let (named, node) = (self.program.named(to), self.program.graph.node(to));
        if named.is_barrier {
            return Step::default();
        }
        if at.role != Role::Engine
            && let Some(door) = self.door(named, at)
        {
            return self.at_door(at, to, door);
        }
        if named.is_closed {
            return Step::default();
        }
        let is_own = at.owner == Owner::Local && at.role == Role::Own;
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
                Some((kind, self.level_of_static(at.id, to)))
            }
            _ => None,
        };
        Step { door, follow: self.follow(to, at.role) }
    }

    fn door(&self, named: &Named, at: At) -> Option<Door> {
        self.program.rules.door(named.rule, &named.name, at.owner, at.behind)
    }

    /// A name of the table is reached.
    fn at_door(&self, at: At, to: Id, door: Door) -> Step {
        let (path, from) = (self.program.path(to), self.program.path(at.id));
        if door.kind == "hash" {
            // A map that copies or compares itself does not show its order, nor does the `Debug` of a foreign type that is
            // shown to nobody. What somebody else implements for maps is theirs.
            let wrote = self.program.named(at.id).name.krate.as_str();
            let is_own =
                is_hashed_head(from) && ["std", "core", "alloc", "hashbrown", "dashmap"].contains(&wrote);
            let is_shown = at.behind == Owner::Registry && path.ends_with("core::fmt::Debug>::fmt");
            if is_own || is_shown || self.writes_sorted_members(at) {
                return Step::default();
            }
        }
        let by = self.program.named(at.id);
        if by.owner != Some(Owner::Local) && self.program.rules.is_quiet(&by.name.krate, door.kind) {
            return Step::default();
        }
        let is_harmless = || {
            self.changes_each(at.id, to)
                || self.forgets(at.id)
                || at.given_by.is_some_and(|by| self.forgets(by))
        };
        let level = if door.kind == "hash" && is_harmless() { Level::Note } else { door.level };
        let follow = match self.program.named(to).owner {
            _ if !door.calls_back => None,
            Some(Owner::Engine) => self.follow(to, at.role),
            _ => Some(Role::Own),
        };
        Step { door: Some((door.kind, level)), follow }
    }

    /// Of the engine's own values only what is generic over the workspace's types is looked into, what is recorded, and what
    /// the standard library or another crate does with a hash collection of them, whose order is nobody's.
    fn follow(&self, to: Id, role: Role) -> Option<Role> {
        let named = self.program.named(to);
        match named.owner {
            Some(Owner::Local) => Some(Role::Own),
            _ if named.is_recording => Some(Role::Recorder),
            Some(Owner::Engine) => named.mentions_local.then_some(Role::Engine),
            None => Some(role),
            Some(_) if role == Role::Own && !named.mentions_local && holds_hashed(&named.name.shown) => {
                Some(Role::Own)
            }
            Some(_) if role != Role::Own || named.mentions_engine => named.mentions_local.then(|| {
                let is_engines = role != Role::Own || self.program.is_about_engine(&named.name);
                if is_engines { Role::Engine } else { Role::Own }
            }),
            Some(_) => Some(Role::Own),
        }
    }

    /// Whether this writes an object of JSON whose members are sorted behind it: those of what is recorded, and those of a
    /// value of `serde_json` that keeps them so.
    fn writes_sorted_members(&self, at: At) -> bool {
        let name = &self.program.named(at.id).name;
        let is_value = || name.shown.contains("serde_json::value::ser::Serializer");
        if at.role != Role::Recorder && !(self.program.json == JsonMaps::Sorted && is_value()) {
            return false;
        }
        let begins_object =
            |(to, _): &(Id, u64)| self.program.path(*to).ends_with("::ser::Serializer>::serialize_map");
        name.path.ends_with("::ser::Serializer>::collect_map")
            || self.program.graph.named_by(at.id).iter().any(begins_object)
    }

    /// Whether `from` goes through the map only to change its entries, each by itself.
    fn changes_each(&self, from: Id, walk: Id) -> bool {
        let path = self.program.path(walk);
        let may_change = ["HashMap::values_mut", "HashMap::iter_mut"].iter().any(|it| path.ends_with(it))
            || path.starts_with("<&mut ") && path.contains("::map::HashMap as ");
        may_change
            && self.program.told_by_mir(from).contains(&Oddity::ChangesEach)
            && !self.calls_what_changes_cells(from)
    }

    /// Whether a function of the workspace that `from` calls, at whatever depth, changes what it has no exclusive borrow of: a
    /// counter in a struct, such as gives each entry the next number.
    fn calls_what_changes_cells(&self, from: Id) -> bool {
        let (mut ways, mut seen) = (vec![from], HashSet::from([from]));
        while let Some(at) = ways.pop().filter(|_| seen.len() < 1024) {
            for &(to, _) in self.program.graph.named_by(at) {
                let named = self.program.named(to);
                if at != from && changes_cell(&named.name) {
                    return true;
                }
                let is_ours = match named.owner {
                    Some(Owner::Local) => !named.is_barrier,
                    Some(Owner::Std) => named.mentions_local,
                    _ => false,
                };
                if is_ours && seen.insert(to) {
                    ways.push(to);
                }
            }
        }
        false
    }

    /// Whether `from` does with the entries of maps only what their order does not show in: as many such uses as maps, behind
    /// each of them. What stands before is done with something else.
    fn forgets(&self, from: Id) -> bool {
        let json = self.program.json;
        let name = &self.program.named(from).name;
        if fills_unordered(name, json) {
            return !self.numbers(name) && !self.orders_in_part(name);
        }
        let references = self.program.graph.named_by(from);
        if references.iter().any(|(to, _)| self.numbers(&self.program.named(*to).name)) {
            return false;
        }
        let is_walk = |&&(to, _): &&(Id, u64)| {
            let named = self.program.named(to);
            let door = self.program.rules.door(named.rule, &named.name, Owner::Local, Owner::Local);
            let is_door = door.is_some_and(|door| door.kind == "hash" && door.level == Level::Error);
            is_door && !self.changes_each(from, to) || takes_hashed(&named.name)
        };
        let walks: Vec<_> = references.iter().filter(is_walk).collect();
        let walked: Vec<Id> = walks.iter().map(|(to, _)| *to).collect();
        let is_use = |to: Id| {
            let name = &self.program.named(to).name;
            forgets_order(name, json) && !self.orders_in_part(name)
                || self.is_blind_fold(to)
                || sorts_by_keys(self.program, from, to, &walked)
        };
        let place = |&(_, offset): &(Id, u64)| Place { offset, line: self.program.line(from, offset) };
        let walks: Vec<_> = walks.into_iter().map(place).collect();
        let uses: Vec<_> = references.iter().filter(|(to, _)| is_use(*to)).map(place).collect();
        walks.iter().all(|walk| {
            let uses = uses.iter().filter(|of| of.may_follow(walk)).count();
            walks.iter().filter(|of| of.follows(walk)).count() <= uses
        })
    }

    /// Whether a call goes through a hash collection with a closure that changes something else each time, such as a number
    /// that it gives to the entry: what comes of it depends on which entry comes when, whatever is done with it behind.
    fn numbers(&self, name: &Name) -> bool {
        let mut closures = name.closures();
        walks_hashed(name)
            && closures.any(|of| self.program.told_of(of).any(|told| told == Oddity::ChangesCaptured))
    }

    /// Whether a call puts values in order that an order of the workspace's does not tell apart.
    fn orders_in_part(&self, name: &Name) -> bool {
        compares(name) && self.program.is_ordered_in_part(&name.shown)
    }

    /// Whether this is a fold over a hash map whose closure adds whole numbers, or the like.
    fn is_blind_fold(&self, fold: Id) -> bool {
        let name = &self.program.named(fold).name;
        let is_fold = name.path.ends_with("::fold") && is_hashed(&name.shown);
        if !is_fold {
            return false;
        }
        // Folds of the standard library call one another before the closure is called.
        let (mut ways, mut seen) = (vec![fold], HashSet::new());
        while let Some(at) = ways.pop().filter(|_| seen.len() < 64) {
            for &(to, _) in self.program.graph.named_by(at) {
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

    /// What is computed once in a cell is looked at itself, and what is kept there may be a cache: unless it counts. Whether a
    /// static is such a cell, its type would say, which no name does: one that is filled by a function of its own names that
    /// function, and of the others there are no more than are filled here.
    fn level_of_static(&self, from: Id, of: Id) -> Level {
        const WITH_A_FUNCTION: [&str; 4] = [
            "<std::sync::lazy_lock::LazyLock as core::ops::deref::Deref>",
            "std::sync::lazy_lock::LazyLock::force",
            "<once_cell::sync::Lazy as core::ops::deref::Deref>",
            "once_cell::sync::Lazy::force",
        ];
        const FILLED_HERE: [&str; 2] =
            ["std::sync::once_lock::OnceLock::get_or_init", "once_cell::sync::OnceCell::get_or_init"];
        let references = self.program.graph.named_by(from);
        let calls = |is: &dyn Fn(&Name) -> bool| {
            references.iter().filter(|(to, _)| is(&self.program.named(*to).name)).count()
        };
        let begins = |name: &Name, cells: &[&str]| cells.iter().any(|cell| name.path.starts_with(cell));
        let is_cell = if self.names_code(of) {
            calls(&|name| begins(name, &WITH_A_FUNCTION)) > 0
        } else {
            let is_plain = |to: &Id| {
                let is_static = matches!(self.program.graph.node(*to).kind, Kind::Static | Kind::ThreadLocal);
                is_static && self.program.named(*to).owner == Some(Owner::Local) && !self.names_code(*to)
            };
            let plain: HashSet<Id> = references.iter().map(|(to, _)| *to).filter(is_plain).collect();
            let filled =
                calls(&|name| begins(name, &FILLED_HERE) || name.shown.contains("lazy_static::lazy::Lazy"));
            plain.len() <= filled
        };
        let is_exchanged = |name: &Name| access(name) == Some(Access::Exchanged);
        if is_cell && calls(&counts_up) == 0 && calls(&is_exchanged) == 0 {
            Level::Note
        } else {
            Level::Error
        }
    }

    /// Whether a function takes locks, and changes nothing that is behind one.
    pub(crate) fn only_reads(&self, function: Id) -> bool {
        self.accesses(function, Access::Lock) && !self.accesses(function, Access::Change)
    }

    /// Whether a function changes what is behind a lock.
    pub(crate) fn changes(&self, function: Id) -> bool {
        self.accesses(function, Access::Change)
    }

    fn accesses(&self, function: Id, how: Access) -> bool {
        let references = self.program.graph.named_by(function);
        references.iter().any(|(to, _)| access(&self.program.named(*to).name) == Some(how))
    }

    /// Whether a static holds the address of a function.
    fn names_code(&self, of: Id) -> bool {
        let names = self.program.graph.named_by(of);
        names.iter().any(|(to, _)| matches!(self.program.graph.node(*to).kind, Kind::Code | Kind::Elsewhere))
    }
}
