//! A graph with names: who owns a node, where it stands in the source, and where workflows begin.
//!
//! Promise: names are made when they are asked for; most nodes are never asked.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::graph::nodes::{Graph, Id};
use crate::graph::parts::Kind;
use crate::lines::Lines;
use crate::mir::told::{Oddity, Place, Told};
use crate::names::{Name, canonical, crate_of};
use crate::order::JsonMaps;
use crate::rules::{Owner, RuleNumber, Rules};

/// The crate that keeps lists of definitions for the engine. A workspace may have one of that name, which is its own.
const LISTS: &str = "inventory";
/// Crates that keep what they do out of replayed code.
const ENGINE: [&str; 14] = [
    "aether",
    "aether_cli",
    "aether_core",
    "aether_effects",
    "aether_encryption",
    "aether_macros",
    "aether_mcp",
    "aether_otel",
    "aether_postgres",
    "aether_rig",
    "aether_serve",
    "aether_sqlite",
    "aether_testing",
    "aether_web",
];
const LOG: [&str; 4] = ["tracing", "tracing_core", "log", "tracing_subscriber"];
const STD: [&str; 8] =
    ["std", "core", "alloc", "hashbrown", "proc_macro", "std_detect", "panic_unwind", "compiler_builtins"];
/// What generated code names for each kind that its definition allows, before the kind.
const ALLOWED: &str = "aether_core::private::marks::allow_";
/// What generated code names of a pure step.
const REPLAYED: &str = "aether_core::private::marks::replayed";
/// What a helper names that its author calls deterministic.
const DETERMINISTIC: &str = "aether_core::private::marks::deterministic";

/// What writes a value of a user's type only to compare its members by their names.
const COMPARED: &str = "aether_core::step::shapes::members";

/// What the engine writes with all that it records.
const RECORDS: &str = "aether_core::vocabulary::payload::Shallow";

/// How its symbol ends.
const MARK: &str = "5marks13deterministic";

/// Everything that was built, with names.
pub(crate) struct Program<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) rules: &'a Rules,
    /// Names of the workspace's crates, as symbols have them.
    local: &'a HashSet<String>,
    names: Vec<OnceLock<Box<Named>>>,
    /// The mark of helpers that their authors call deterministic.
    deterministic: Option<Id>,
    told_by_mir: HashMap<Id, Vec<Oddity>>,
    /// The same by the names of functions.
    told_of: HashMap<String, Vec<Oddity>>,
    /// Types of which an order leaves some fields out, without their arguments.
    ordered_in_part: Vec<String>,
    pub(crate) json: JsonMaps,
    lines: Mutex<HashMap<u32, Lines>>,
}

/// A name, and what follows from it.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) name: Name,
    /// `None` for data without a name.
    pub(crate) owner: Option<Owner>,
    /// The rule that counts for it.
    pub(crate) rule: Option<RuleNumber>,
    /// Nothing is looked at behind it.
    pub(crate) is_closed: bool,
    /// It is another's to answer for: a step's body, another workflow, logging.
    pub(crate) is_barrier: bool,
    /// A type of the workspace occurs in it.
    pub(crate) mentions_local: bool,
    /// A type of the engine occurs in it.
    pub(crate) mentions_engine: bool,
    /// It writes a value that is recorded.
    pub(crate) is_recording: bool,
}

/// A workflow, or a pure step, which a replay runs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// As the program names it.
    pub(crate) name: String,
    /// Its body, and of a workflow what decodes its input.
    pub(crate) begins: Vec<Id>,
    /// Kinds that its definition allows.
    pub(crate) allowed: HashSet<String>,
}

impl<'a> Program<'a> {
    pub(crate) fn new(graph: &'a Graph, rules: &'a Rules, local: &'a HashSet<String>, told: &[Told]) -> Self {
        let names = std::iter::repeat_with(OnceLock::new).take(graph.nodes.len()).collect();
        let mut program = Self {
            graph,
            rules,
            local,
            names,
            deterministic: None,
            told_by_mir: HashMap::new(),
            told_of: HashMap::new(),
            ordered_in_part: Vec::new(),
            json: JsonMaps::default(),
            lines: Mutex::default(),
        };
        let mut of_crate: HashMap<String, Vec<Id>> =
            told.iter().map(|told| (told.krate.clone(), Vec::new())).collect();
        for (id, node) in graph.iter() {
            let Some(symbol) = node.symbol.as_ref().filter(|symbol| symbol.starts_with("_R")) else {
                continue;
            };
            if symbol.ends_with(MARK) && program.path(id) == DETERMINISTIC {
                program.deterministic = Some(id);
            }
            if node.kind == Kind::Code
                && let Some(functions) = crate_of(symbol).and_then(|krate| of_crate.get_mut(&krate))
            {
                functions.push(id);
            }
        }
        for told in told {
            // Symbols hold the names of functions as they are, so most are passed over unread.
            let has_name = |id: &&Id| {
                graph.node(**id).symbol.as_ref().is_some_and(|symbol| symbol.contains(told.place.last()))
            };
            let functions = of_crate.get(&told.krate).into_iter().flatten().filter(has_name);
            let found: Vec<Id> = functions.copied().filter(|id| program.is_of(*id, told)).collect();
            for id in found {
                let path = program.path(id).to_owned();
                let of =
                    path.strip_prefix('<').and_then(|path| path.strip_suffix(" as core::cmp::Ord>::cmp"));
                if let Some(of) = of.filter(|_| told.oddity == Oddity::ComparesInPart) {
                    program.ordered_in_part.push(of.to_owned());
                }
                program.told_of.entry(path).or_default().push(told.oddity);
                program.told_by_mir.entry(id).or_default().push(told.oddity);
            }
        }
        program.json = program.json_maps();
        program
    }

    /// How objects of `serde_json` keep their members, by what their `insert` names.
    fn json_maps(&self) -> JsonMaps {
        let is_insert = |(id, symbol): &(Id, &str)| {
            symbol.contains("10serde_json")
                && symbol.contains("6insert")
                && self.path(*id) == "serde_json::map::Map::insert"
        };
        let symbols = self.graph.iter().filter_map(|(id, node)| Some((id, node.symbol.as_deref()?)));
        let inserts: Vec<Id> = symbols.filter(is_insert).map(|(id, _)| id).collect();
        let is_sorted = |id: &Id| {
            let named = self.graph.named_by(*id);
            named.iter().any(|(to, _)| self.path(*to) == "alloc::collections::btree::map::BTreeMap::insert")
        };
        let all = !inserts.is_empty() && inserts.iter().all(is_sorted);
        if all { JsonMaps::Sorted } else { JsonMaps::AsInserted }
    }

    pub(crate) fn named(&self, id: Id) -> &Named {
        self.names[id as usize].get_or_init(|| {
            let Some(symbol) = &self.graph.node(id).symbol else { return Box::default() };
            let name = Name::of(symbol);
            let owner = if name.is_v0 { owner(&name.krate, self.local) } else { Owner::Foreign };
            Box::new(Named {
                owner: Some(owner),
                rule: self.rules.first(&name),
                is_closed: self.rules.is_closed(&name),
                is_barrier: (owner == Owner::Log && !calls_back(&name.path)) || is_barrier(&name.path),
                // Where the engine is a dependency by path, it is none of the workspace's crates all the same.
                mentions_local: self
                    .local
                    .iter()
                    .any(|krate| !ENGINE.contains(&krate.as_str()) && name.mentions(krate)),
                is_recording: name.shown.contains(RECORDS),
                mentions_engine: ENGINE.iter().any(|krate| name.mentions(krate))
                    || (name.mentions(LISTS) && !self.local.contains(LISTS)),
                name,
            })
        })
    }

    pub(crate) fn path(&self, id: Id) -> &str {
        &self.named(id).name.path
    }

    /// Whether the first type argument of a function is the engine's.
    pub(crate) fn is_about_engine(&self, name: &Name) -> bool {
        name.first_argument_is_of(&ENGINE)
    }

    /// What the MIR of a function says that its object code does not.
    pub(crate) fn told_by_mir(&self, id: Id) -> &[Oddity] {
        self.told_by_mir.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The same of a function that is named as a type argument.
    pub(crate) fn told_of(&self, function: &str) -> impl Iterator<Item = Oddity> {
        let told = self.told_of.get(&canonical(function.trim_start_matches('&')));
        told.into_iter().flatten().copied()
    }

    /// Whether a type of the workspace occurs in a name whose order leaves some of its fields out.
    pub(crate) fn is_ordered_in_part(&self, shown: &str) -> bool {
        self.ordered_in_part.iter().any(|ty| {
            shown.match_indices(ty.as_str()).any(|(at, _)| {
                let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                !shown[..at].ends_with(goes_on)
                    && !shown[at + ty.len()..].trim_start_matches("::<").starts_with(goes_on)
            })
        })
    }

    /// The function that MIR tells something of, if it is `id`.
    fn is_of(&self, id: Id, told: &Told) -> bool {
        let path = self.path(id);
        match &told.place {
            Place::Path(end) => {
                let before = path.strip_suffix(end.as_str()).filter(|before| before.ends_with("::"));
                before.is_some_and(|before| before.split("::").next() == Some(&told.krate))
            }
            Place::Method { name, file, line, next } => {
                let is_there = |(of, at): (String, u32)| {
                    of.ends_with(file.as_str()) && at >= *line && next.is_none_or(|next| at < next)
                };
                path.ends_with(name.as_str()) && self.beginning(id).is_some_and(is_there)
            }
        }
    }

    /// Whether the author of a helper calls it deterministic: its code names a mark.
    pub(crate) fn is_called_deterministic(&self, id: Id) -> bool {
        self.deterministic.is_some_and(|mark| self.graph.named_by(id).iter().any(|(to, _)| *to == mark))
    }

    /// Where workflows begin: what the generated `Workflow::run` makes and `Workflow::decode` reads, `Step::call` of pure steps,
    /// and the business keys and rules of approval of all steps, which are asked for again at another attempt.
    pub(crate) fn roots(&self) -> Vec<Root> {
        let mut roots: BTreeMap<String, Vec<Id>> = BTreeMap::new();
        for (id, node) in self.graph.iter() {
            let is_candidate = |symbol: &Arc<str>| {
                symbol.contains("8Workflow") && (symbol.contains("3run") || symbol.contains("6decode"))
                    || symbol.contains("4Step")
                        && ["4call", "12business_key", "14needs_approval"]
                            .iter()
                            .any(|it| symbol.contains(it))
            };
            if node.kind != Kind::Code || !node.symbol.as_ref().is_some_and(is_candidate) {
                continue;
            }
            let of = self.path(id).strip_prefix('<').and_then(|rest| rest.split_once(" as aether_core::"));
            let Some((of, method)) = of else { continue };
            let is_pure_step = || {
                method.ends_with("Step>::call")
                    && self.graph.named_by(id).iter().any(|(to, _)| self.path(*to) == REPLAYED)
            };
            let is_of_workflow =
                ["Workflow>::run", "Workflow>::decode"].iter().any(|it| method.ends_with(it));
            // One that is not declared names nothing.
            let is_declared_rule = || {
                ["Step>::business_key", "Step>::needs_approval"].iter().any(|it| method.ends_with(it))
                    && !self.graph.named_by(id).is_empty()
            };
            if is_of_workflow || is_pure_step() || is_declared_rule() {
                roots.entry(of.to_owned()).or_default().push(id);
            }
        }
        let root = |(name, begins): (String, Vec<Id>)| {
            let allowed = begins.iter().flat_map(|id| self.allowed(*id)).collect();
            Root { name, begins, allowed }
        };
        roots.into_iter().map(root).collect()
    }

    /// The kinds that a definition allows: its generated code names a mark for each.
    fn allowed(&self, begin: Id) -> impl Iterator<Item = String> {
        let marks =
            self.graph.named_by(begin).iter().filter_map(|(to, _)| self.path(*to).strip_prefix(ALLOWED));
        marks.map(|mark| if mark == "uuid" { "random" } else { mark }).map(str::to_owned)
    }

    /// The first line of a function.
    fn beginning(&self, id: Id) -> Option<(String, u32)> {
        self.line(id, self.graph.node(id).place?.start)
    }

    /// The line at an offset of the section that a function is in.
    pub(crate) fn line(&self, id: Id, offset: u64) -> Option<(String, u32)> {
        self.spot(id, offset).map(|(file, line, _)| (file, line))
    }

    /// The line, and the column: all that a macro of another crate writes is of the one place that calls it.
    pub(crate) fn spot(&self, id: Id, offset: u64) -> Option<(String, u32, u64)> {
        let place = self.graph.node(id).place?;
        let mut cache = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = cache.entry(place.source).or_insert_with(|| {
            self.graph.sources.get(place.source as usize).map(Lines::read).unwrap_or_default()
        });
        let spot = lines.at(place.section, place.start, offset);
        spot.map(|(file, line, column)| (file.to_owned(), line, column))
    }
}

/// Who wrote a crate, where `local` are those of the workspace.
fn owner(krate: &str, local: &HashSet<String>) -> Owner {
    match krate {
        _ if ENGINE.contains(&krate) => Owner::Engine,
        _ if local.contains(krate) => Owner::Local,
        LISTS => Owner::Engine,
        _ if LOG.contains(&krate) => Owner::Log,
        _ if STD.contains(&krate) => Owner::Std,
        _ => Owner::Registry,
    }
}

/// Whether a function of a log does what it is given, whatever its level.
fn calls_back(path: &str) -> bool {
    const CALL_BACK: [&str; 4] = [
        "tracing::span::Span::in_scope",
        "tracing::subscriber::with_default",
        "tracing::dispatcher::with_default",
        "tracing_core::dispatcher::with_default",
    ];
    // Futures in a span, or with a subscriber of their own.
    const FUTURES: [&str; 2] =
        ["<tracing::instrument::Instrumented as core::", "<tracing::instrument::WithDispatch as core::"];
    CALL_BACK.contains(&path) || FUTURES.iter().any(|of| path.starts_with(of))
}

/// A step's body may do as it likes, and another workflow is looked at for itself. Arguments are encoded in workflow code.
fn is_barrier(path: &str) -> bool {
    if path == COMPARED {
        return true;
    }
    if !path.contains(" as aether_core::") {
        return false;
    }
    let of_step =
        path.rsplit_once("Step>::").is_some_and(|(_, method)| !method.contains("::") && method != "encode");
    of_step || path.ends_with("Workflow>::run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_of_the_workspace_is_looked_at_whatever_it_is_called() {
        let local: HashSet<String> =
            ["inventory", "log", "hashbrown", "aether_core"].map(str::to_owned).into();
        for name in ["inventory", "log", "hashbrown"] {
            assert_eq!(owner(name, &local), Owner::Local, "{name}");
        }
        assert_eq!(owner("aether_core", &local), Owner::Engine);
        assert_eq!(owner("inventory", &HashSet::new()), Owner::Engine);
        assert_eq!(owner("serde", &local), Owner::Registry);
    }
}
