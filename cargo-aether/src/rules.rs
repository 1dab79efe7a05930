//! Which names are doors to the world: the table `rules.txt`, and how a name is held against it.
//!
//! Promise: the table says all that is known of the standard library, of libc and of other crates; the first line that fits
//! a name is the one that counts.

use crate::names::{Name, has_hasher_of_its_own};

/// The table.
pub(crate) const TABLE: &str = include_str!("rules.txt");

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// Cannot be told from a harmless use in an object file: shown when it is asked for.
    Note,
    /// A replay does not repeat it.
    Error,
}

/// Who owns a function or a datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// `std`, `core`, `alloc`, and what is built into them.
    Std,
    /// The crates of Aether.
    Engine,
    /// Logging, which workflow code may do.
    Log,
    /// The workspace, and dependencies by path.
    Local,
    /// Other crates.
    Registry,
    /// A name that is not Rust's.
    Foreign,
}

/// Kinds of sources, with code and remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The word that `allow(..)` takes.
    pub(crate) kind: &'static str,
    /// The diagnostic.
    pub(crate) code: &'static str,
    /// What to do instead.
    pub(crate) remedy: &'static str,
}

/// A door to the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    pub(crate) kind: &'static str,
    /// It calls back: the walk goes on behind it.
    pub(crate) calls_back: bool,
    pub(crate) level: Level,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    /// `None` for a name that is known to be no door.
    kind: Option<&'static str>,
    pattern: &'static str,
    /// The pattern is of a name with its type arguments.
    is_of_shown: bool,
    who: Who,
    calls_back: bool,
    level: Level,
}

/// Number of the rule that counts for a name.
pub(crate) type RuleNumber = u16;

/// Who must name a door for it to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Anyone,
    /// Not the standard library's own generic code, such as a `HashMap` that draws its keys.
    NotStd,
    /// Code of the workspace, and the standard library's generic code that it calls.
    Near,
    Local,
}

/// The table, read.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    sources: Vec<Source>,
    rules: Vec<Rule>,
    /// Crates, each with the kinds of which it is quiet.
    quiet: Vec<(&'static str, Vec<&'static str>)>,
}

enum Section {
    Kind(&'static str),
    Pure,
    Quiet,
}

impl Rules {
    /// Reads the table; a test reads each of its lines, so none is passed over.
    pub(crate) fn new() -> Self {
        Self::read(TABLE).unwrap_or_default()
    }

    pub(crate) fn read(table: &'static str) -> Result<Self, String> {
        let (mut read, mut section) = (Self::default(), None);
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let wrong = || format!("`{line}` is no line of the table");
            if let Some(head) = line.strip_prefix('[') {
                let (name, rest) = head.split_once(']').ok_or_else(wrong)?;
                section = Some(match name {
                    "pure" => Section::Pure,
                    "quiet" => Section::Quiet,
                    kind => {
                        let (code, remedy) = rest.trim().split_once(": ").ok_or_else(wrong)?;
                        read.sources.push(Source { kind, code, remedy });
                        Section::Kind(kind)
                    }
                });
                continue;
            }
            let (first, rest) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
            let kind = match &section {
                None => return Err(wrong()),
                Some(Section::Quiet) => {
                    let (kinds, _) = rest.trim().split_once(": ").ok_or_else(wrong)?;
                    read.quiet.push((first, kinds.split(", ").collect()));
                    continue;
                }
                Some(Section::Pure) => None,
                Some(Section::Kind(kind)) => Some(*kind),
            };
            let (who, calls_back) = first.strip_suffix('+').map_or((first, false), |who| (who, true));
            let (who, level) = who.strip_suffix('?').map_or((who, Level::Error), |who| (who, Level::Note));
            let who = match who {
                "any" => Who::Anyone,
                "notstd" => Who::NotStd,
                "near" => Who::Near,
                "local" => Who::Local,
                _ => return Err(wrong()),
            };
            let (pattern, is_of_shown) =
                rest.trim().strip_prefix('=').map_or((rest.trim(), false), |rest| (rest, true));
            read.rules.push(Rule { kind, pattern, is_of_shown, who, calls_back, level });
        }
        Ok(read)
    }

    /// The rule that counts for `name`: the first that fits it.
    pub(crate) fn first(&self, name: &Name) -> Option<RuleNumber> {
        let at = self.rules.iter().position(|rule| rule.fits(name))?;
        RuleNumber::try_from(at).ok()
    }

    /// The door that `name` is by `rule`, where code of `caller` names it: the standard library's code, of which `behind` is
    /// who called it.
    pub(crate) fn door(
        &self,
        rule: Option<RuleNumber>,
        name: &Name,
        caller: Owner,
        behind: Owner,
    ) -> Option<Door> {
        let rule = self.rules.get(usize::from(rule?))?;
        let counts = match rule.who {
            Who::Anyone => true,
            Who::NotStd => caller != Owner::Std,
            Who::Near => caller == Owner::Local || (caller == Owner::Std && behind == Owner::Local),
            Who::Local => caller == Owner::Local,
        };
        let kind = rule.kind.filter(|_| counts)?;
        // A map with a hasher of its own has an order of its own.
        let is_random = kind != "hash" || !has_hasher_of_its_own(&name.shown);
        is_random.then_some(Door { kind, calls_back: rule.calls_back, level: rule.level })
    }

    /// Whether nothing is looked at behind this name.
    pub(crate) fn is_closed(&self, name: &Name) -> bool {
        self.rules.iter().any(|rule| !rule.calls_back && rule.fits(name))
    }

    /// Whether nobody sees what this crate does with sources of this kind.
    pub(crate) fn is_quiet(&self, krate: &str, kind: &str) -> bool {
        self.quiet.iter().any(|(quiet, kinds)| *quiet == krate && kinds.contains(&kind))
    }

    /// All kinds.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.sources.iter().map(|source| source.kind).collect()
    }

    /// Whether there are sources of this kind.
    pub(crate) fn has(&self, kind: &str) -> bool {
        self.sources.iter().any(|source| source.kind == kind)
    }

    /// The kinds of sources as a table in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("| kind | code | names | instead |\n|---|---|---|---|\n");
        for Source { kind, code, remedy } in &self.sources {
            let names = self.rules.iter().filter(|rule| rule.kind == Some(kind)).count();
            let names = if names == 0 { "every one of the workspace".into() } else { names.to_string() };
            text += &format!("| `{kind}` | [{code}](diagnostics/{code}.md) | {names} | {remedy} |\n");
        }
        text
    }

    /// The source of a kind; every kind of the table has one.
    pub(crate) fn source(&self, kind: &'static str) -> Source {
        let known = self.sources.iter().find(|source| source.kind == kind).copied();
        known.unwrap_or(Source { kind, code: "AE0100", remedy: "do it in a step" })
    }
}

impl Rule {
    fn fits(&self, name: &Name) -> bool {
        fits(self.pattern, if self.is_of_shown { &name.shown } else { &name.path })
    }
}

/// Whether this is a function of C that is not the language's own runtime.
pub(crate) fn is_foreign(path: &str) -> bool {
    const BEGINNINGS: [&str; 6] = ["_Unwind", "__", "rust_eh", "_GLOBAL_", "DW.ref", "_DYNAMIC"];
    // What the compiler calls for copies, comparisons, and the remainder of floats.
    const NAMES: [&str; 10] =
        ["memcpy", "memmove", "memset", "memcmp", "memchr", "bcmp", "strlen", "fmod", "fmodf", "fmodl"];
    let is_runtime = BEGINNINGS.iter().any(|beginning| path.starts_with(beginning)) || NAMES.contains(&path);
    !path.is_empty() && !path.contains("::") && !is_runtime
}

fn fits(pattern: &str, path: &str) -> bool {
    if let Some(exact) = pattern.strip_suffix('$') {
        return exact == path;
    }
    let mut parts = pattern.split('%');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else { return false };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    // `Instant::now` is no `Instant::nowhere`; `std::env::` is all of it.
    let ends_in_a_name = pattern.ends_with(|c: char| c.is_alphanumeric());
    !(ends_in_a_name && rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Whether this call changes something that only counts: a cell of a number, and no cache.
pub(crate) fn counts_up(name: &Name) -> bool {
    const SCALARS: [&str; 17] = [
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "usize",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "isize",
        "bool",
        "char",
        "f32",
        "f64",
        "core::time::Duration",
    ];
    let method = name.path.rsplit("::").next().unwrap_or_default();
    if name.path.starts_with("core::sync::atomic::Atomic") {
        return method.starts_with("fetch_")
            || method.starts_with("compare_")
            || ["swap", "store"].contains(&method);
    }
    let is_taken = ["lock", "write", "borrow_mut", "set", "replace", "get_mut"].contains(&method);
    is_taken
        && name
            .last_argument_of("Mutex")
            .or(name.last_argument_of("RwLock"))
            .is_some_and(|of| SCALARS.contains(&of))
}

/// Whether this call changes something through a borrow that is not exclusive.
pub(crate) fn changes_cell(name: &Name) -> bool {
    const CHANGE: [&str; 8] =
        ["set", "replace", "swap", "take", "update", "borrow_mut", "try_borrow_mut", "replace_with"];
    let method = name.path.rsplit("::").next().unwrap_or_default();
    let is_cell = ["core::cell::Cell::", "core::cell::RefCell::"].iter().any(|of| name.path.starts_with(of));
    is_cell && CHANGE.contains(&method) || counts_up(name) || access(name) == Some(Access::Change)
}

/// What a call does with a cell that others change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Takes a lock, which is enough to read.
    Lock,
    /// Changes what is behind a lock.
    Change,
    /// Reads what was made to be exchanged by somebody else, and caches nothing.
    Exchanged,
}

/// What a call does with a lock, or with a value that is exchanged as a whole.
pub(crate) fn access(name: &Name) -> Option<Access> {
    const LOCKS: [&str; 8] = [
        "std::sync::poison::mutex::",
        "std::sync::poison::rwlock::",
        "std::sync::nonpoison::",
        "lock_api::mutex::",
        "lock_api::rwlock::",
        "tokio::sync::mutex::",
        "tokio::sync::rwlock::",
        "parking_lot::",
    ];
    const EXCHANGED: [&str; 5] = [
        "arc_swap::ArcSwapAny::load",
        "arc_swap::cache::Cache::load",
        "tokio::sync::watch::Receiver::borrow",
        "tokio::sync::watch::Receiver::borrow_and_update",
        "tokio::sync::watch::Sender::borrow",
    ];
    let (path, method) = (name.path.as_str(), name.path.rsplit("::").next().unwrap_or_default());
    if EXCHANGED.contains(&path) || path == "arc_swap::ArcSwapAny::load_full" {
        return Some(Access::Exchanged);
    }
    let of = path.trim_start_matches('<');
    if !LOCKS.iter().any(|lock| of.starts_with(lock)) {
        return None;
    }
    match method {
        "read" | "try_read" | "blocking_read" | "lock" | "try_lock" | "blocking_lock" => Some(Access::Lock),
        "deref_mut" | "write" | "try_write" | "blocking_write" | "get_mut" => Some(Access::Change),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn name(path: &str) -> Name {
        Name { shown: path.into(), path: path.into(), ..Name::default() }
    }

    fn door(rules: &Rules, path: &str, caller: Owner) -> Option<Door> {
        let name = name(path);
        rules.door(rules.first(&name), &name, caller, caller)
    }

    #[test]
    fn every_line_of_the_table_is_read_and_every_kind_has_a_code_and_a_remedy() {
        let rules = Rules::read(TABLE).unwrap();
        let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])).count();
        assert_eq!(rules.rules.len() + rules.quiet.len(), lines);
        for source in &rules.sources {
            assert!(source.code.starts_with("AE01") && source.code.len() == 6, "{source:?}");
            assert!(!source.remedy.is_empty(), "{source:?}");
        }
        for (krate, kinds) in &rules.quiet {
            assert!(kinds.iter().all(|kind| rules.has(kind)), "{krate}: {kinds:?}");
            // Who is given a hash map and keeps its order shows it.
            assert!(!kinds.contains(&"hash"), "{krate}");
        }
        for rule in &rules.rules {
            assert!(rule.kind.is_none_or(|kind| rules.source(kind).code != "AE0100"), "{rule:?}");
        }
    }

    #[test]
    fn a_door_is_a_whole_name() {
        let rules = Rules::new();
        let kind = |path: &str| door(&rules, path, Owner::Local).map(|door| door.kind);
        assert_eq!(kind("std::time::SystemTime::now"), Some("clock"));
        assert_eq!(kind("std::time::SystemTime::nowhere"), None);
        assert_eq!(kind("std::env::var_os"), Some("env"));
        assert_eq!(kind("app::std::env::var"), None);
        assert_eq!(kind("getenv"), Some("env"));
        assert_eq!(kind("getenvelope"), None);
        assert_eq!(kind("rust_i18n::locale"), Some("env"));
        assert_eq!(kind("opentelemetry::context::Context::current"), Some("env"));
        assert_eq!(kind("opentelemetry::context::Context::current_trace_id"), None);
        assert_eq!(
            kind("<(&str, u16) as std::net::socket_addr::ToSocketAddrs>::to_socket_addrs"),
            Some("net")
        );
        assert_eq!(kind("tokio::runtime::handle::Handle::spawn"), Some("spawn"));
        assert_eq!(kind("tokio::runtime::context::current"), None);
        assert!(rules.is_closed(&name("tokio::runtime::context::current")));
    }

    #[test]
    fn who_names_a_door_matters() {
        let rules = Rules::new();
        let counts = |path: &str, caller, behind| {
            let name = name(path);
            rules.door(rules.first(&name), &name, caller, behind).is_some()
        };
        let random = "std::hash::random::RandomState::new";
        assert!(counts(random, Owner::Local, Owner::Local));
        // A `HashMap` that draws its keys, and one of another crate that shows no order.
        assert!(
            !counts(random, Owner::Std, Owner::Local) && !counts(random, Owner::Registry, Owner::Registry)
        );
        let shown = "<*const u8 as core::fmt::Debug>::fmt";
        assert!(counts(shown, Owner::Std, Owner::Local) && !counts(shown, Owner::Std, Owner::Registry));
        assert!(!counts("std::backtrace::Backtrace::capture", Owner::Registry, Owner::Registry));
        // One of many equal caches is chosen by the thread.
        for identity in ["std::thread::functions::current", "pthread_self", "gettid"] {
            assert!(counts(identity, Owner::Local, Owner::Local), "{identity}");
            assert!(!counts(identity, Owner::Registry, Owner::Registry), "{identity}");
        }
        assert!(counts("std::thread::functions::sleep", Owner::Registry, Owner::Registry));
    }

    #[test]
    fn a_lock_is_changed_through_its_guard() {
        let of = |path: &str| access(&name(path));
        assert_eq!(of("std::sync::poison::rwlock::RwLock::read"), Some(Access::Lock));
        assert_eq!(of("std::sync::poison::mutex::Mutex::lock"), Some(Access::Lock));
        assert_eq!(of("lock_api::rwlock::RwLock::write"), Some(Access::Change));
        let guard = "<std::sync::poison::mutex::MutexGuard as core::ops::deref::DerefMut>::deref_mut";
        assert_eq!(of(guard), Some(Access::Change));
        let guard = "<std::sync::poison::mutex::MutexGuard as core::ops::deref::Deref>::deref";
        assert_eq!(of(guard), None);
        assert_eq!(of("<alloc::vec::Vec as core::ops::deref::DerefMut>::deref_mut"), None);
        assert_eq!(of("arc_swap::ArcSwapAny::load"), Some(Access::Exchanged));
        assert_eq!(of("tokio::sync::watch::Receiver::borrow"), Some(Access::Exchanged));
        assert_eq!(of("core::cell::RefCell::borrow"), None);
    }

    #[test]
    fn hash_maps_of_other_crates_are_doors() {
        let rules = Rules::new();
        let level = |path: &str| {
            let door = door(&rules, path, Owner::Local).filter(|door| door.kind == "hash");
            door.map(|door| door.level)
        };
        for path in [
            "hashbrown::map::HashMap::iter",
            "hashbrown::map::HashMap::into_values",
            "<&hashbrown::map::HashMap as core::iter::traits::collect::IntoIterator>::into_iter",
            "hashbrown::set::HashSet::union",
            "<hashbrown::set::HashSet as core::fmt::Debug>::fmt",
            "dashmap::DashMap::iter_mut",
            "<dashmap::DashMap as core::iter::traits::collect::IntoIterator>::into_iter",
            "dashmap::set::DashSet::iter",
        ] {
            assert_eq!(level(path), Some(Level::Error), "{path}");
        }
        assert_eq!(level("dashmap::DashMap::retain"), Some(Level::Note));
        assert_eq!(level("hashbrown::map::HashMap::get"), None);
    }
}
