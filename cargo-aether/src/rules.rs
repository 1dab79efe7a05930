//! Which names are doors to the world: the table `rules.txt`, and how a name is held against it.
//!
//! Promise: the table says all that is known of the standard library, of libc and of other crates; the first line that fits
//! a name is the one that counts.

use crate::names::Name;

/// The table.
const TABLE: &str = include_str!("rules.txt");

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// Cannot be told from a harmless use in an object file: shown when it is asked for.
    Note,
    /// A replay does not repeat it.
    Error,
}

/// Who owns a function or a datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    /// `None` for a name that is known to be no door.
    kind: Option<&'static str>,
    pattern: &'static str,
    who: Who,
    calls_back: bool,
}

/// Who must name a door for it to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Anyone,
    /// Not the standard library's own generic code, such as a `HashMap` that draws its keys.
    NotStd,
    Local,
}

/// The table, read.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    sources: Vec<Source>,
    rules: Vec<Rule>,
    quiet: Vec<&'static str>,
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

    fn read(table: &'static str) -> Result<Self, String> {
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
                    read.quiet.push(first);
                    continue;
                }
                Some(Section::Pure) => None,
                Some(Section::Kind(kind)) => Some(*kind),
            };
            let (who, calls_back) = first.strip_suffix('+').map_or((first, false), |who| (who, true));
            let who = match who {
                "any" => Who::Anyone,
                "notstd" => Who::NotStd,
                "local" => Who::Local,
                _ => return Err(wrong()),
            };
            read.rules.push(Rule { kind, pattern: rest.trim(), who, calls_back });
        }
        Ok(read)
    }

    /// The door that `name` is, where `caller` names it.
    pub(crate) fn door(&self, name: &Name, caller: Owner) -> Option<Door> {
        let rule = self.first(&name.path)?;
        let counts = match rule.who {
            Who::Anyone => true,
            Who::NotStd => caller != Owner::Std,
            Who::Local => caller == Owner::Local,
        };
        let kind = rule.kind.filter(|_| counts)?;
        // A map with a hasher of its own has an order of its own.
        let is_random = kind != "hash" || !name.has_hasher_of_its_own();
        is_random.then_some(Door { kind, calls_back: rule.calls_back })
    }

    /// Whether nothing is looked at behind this name.
    pub(crate) fn is_closed(&self, path: &str) -> bool {
        self.rules.iter().any(|rule| !rule.calls_back && fits(rule.pattern, path))
    }

    /// Whether what this crate names does not count.
    pub(crate) fn is_quiet(&self, krate: &str) -> bool {
        self.quiet.contains(&krate)
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

    fn first(&self, path: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| fits(rule.pattern, path))
    }
}

/// Whether this is a function of C that is not the language's own runtime.
pub(crate) fn is_foreign(path: &str) -> bool {
    const RUNTIME: [&str; 9] =
        ["mem", "bcmp", "strlen", "_Unwind", "__", "rust_eh", "_GLOBAL_", "DW.ref", "_DYNAMIC"];
    !path.is_empty() && !path.contains("::") && !RUNTIME.iter().any(|runtime| path.starts_with(runtime))
}

fn fits(pattern: &str, path: &str) -> bool {
    if let Some(exact) = pattern.strip_suffix('$') {
        return exact == path;
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else { return false };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    // `Instant::now` is no `Instant::nowhere`; `std::env::` is all of it.
    let ends_in_a_name = pattern.ends_with(|c: char| c.is_alphanumeric());
    !(ends_in_a_name && rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Whether this call makes the order of a hash map not matter, where the function that goes through the map makes it.
pub(crate) fn forgets_order(name: &Name) -> bool {
    let method = name.path.rsplit("::").next().unwrap_or_default();
    let of = name.shown.split(" as ").next().unwrap_or_default();
    let of_map = name.path.starts_with('<') && of.contains("std::collections::hash::");
    match method {
        // Sums of floating-point numbers depend on the order.
        "sum" | "product" => of_map && !name.shown.contains("f64>") && !name.shown.contains("f32>"),
        "count" | "all" | "any" | "max" | "min" => of_map,
        "collect" => {
            let into = name.shown.rsplit_once("::collect::<").map_or("", |(_, into)| into);
            let into = into.split('<').next().unwrap_or_default();
            of_map
                && ["BTreeMap", "BTreeSet", "HashMap", "HashSet", "BinaryHeap"]
                    .iter()
                    .any(|of| into.ends_with(of))
        }
        _ => method.starts_with("sort"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn name(path: &str) -> Name {
        Name { shown: path.into(), path: path.into(), ..Name::default() }
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
        for rule in &rules.rules {
            assert!(rule.kind.is_none_or(|kind| rules.source(kind).code != "AE0100"), "{rule:?}");
        }
    }

    #[test]
    fn a_door_is_a_whole_name() {
        let rules = Rules::new();
        let kind = |path: &str| rules.door(&name(path), Owner::Local).map(|door| door.kind);
        assert_eq!(kind("std::time::SystemTime::now"), Some("clock"));
        assert_eq!(kind("std::time::SystemTime::nowhere"), None);
        assert_eq!(kind("std::env::var_os"), Some("env"));
        assert_eq!(kind("app::std::env::var"), None);
        assert_eq!(kind("getenv"), Some("env"));
        assert_eq!(kind("getenvelope"), None);
        assert_eq!(
            kind("<(&str, u16) as std::net::socket_addr::ToSocketAddrs>::to_socket_addrs"),
            Some("net")
        );
        assert_eq!(kind("tokio::runtime::handle::Handle::spawn"), Some("spawn"));
        assert_eq!(kind("tokio::runtime::context::current"), None);
        assert!(rules.is_closed("tokio::runtime::context::current"));
    }

    #[test]
    fn who_names_a_door_matters() {
        let rules = Rules::new();
        let random = name("std::hash::random::RandomState::new");
        assert!(rules.door(&random, Owner::Std).is_none() && rules.door(&random, Owner::Registry).is_some());
        let backtrace = name("std::backtrace::Backtrace::capture");
        assert!(
            rules.door(&backtrace, Owner::Local).is_some()
                && rules.door(&backtrace, Owner::Registry).is_none()
        );
    }

    #[test]
    fn sums_of_whole_numbers_forget_the_order_and_sums_of_fractions_do_not() {
        let of = |method: &str| {
            let shown = format!(
                "<std::collections::hash::map::Values<u8, u8> as core::iter::traits::iterator::Iterator>::{method}"
            );
            let path = shown.replace("<u8, u8>", "").split("::<").next().unwrap_or_default().to_owned();
            forgets_order(&Name { shown, path, ..Name::default() })
        };
        assert!(of("sum::<u32>") && !of("sum::<f64>") && of("count") && !of("next"));
        assert!(of("collect::<alloc::collections::btree::set::BTreeSet<u8>>"));
        assert!(!of("collect::<alloc::vec::Vec<u8>>"));
    }
}
