//! What names mean, as far as the macro can see: imports and aliases of the module and of the blocks around a use.
//!
//! Promise: a name that the visible source declares itself is never mistaken for another crate's.

use std::collections::{BTreeMap, BTreeSet};

use syn::ext::IdentExt as _;
use syn::{Ident, Item, Path, Type, UseTree};

/// The names in scope, innermost last.
#[derive(Default)]
pub(crate) struct Names {
    scopes: Vec<Scope>,
}

#[derive(Default)]
struct Scope {
    /// Imports and aliases, each with the path it stands for.
    known: BTreeMap<String, Vec<String>>,
    /// The modules of `use module::*`.
    globs: Vec<Vec<String>>,
    /// Items that are declared here.
    own: BTreeSet<String>,
    /// Statics that are declared here and can change.
    statics: BTreeSet<String>,
}

/// What a path means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An item of the user's own crate.
    Own,
    /// The path with its imports replaced.
    Path(Vec<String>),
    /// One of these, by a glob import, or the path as written.
    Maybe(Vec<Vec<String>>),
}

impl Names {
    /// Adds the scope of a block or module.
    pub(crate) fn enter<'a>(&mut self, items: impl IntoIterator<Item = &'a Item>) {
        let mut scope = Scope::default();
        for item in items {
            scope.declare(item);
        }
        self.scopes.push(scope);
    }

    /// Removes the innermost scope.
    pub(crate) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Whether `name` is a static that can change, declared in sight.
    pub(crate) fn is_changing_static(&self, name: &str) -> bool {
        let declared = |scope: &&Scope| scope.own.contains(name) || scope.known.contains_key(name);
        self.scopes.iter().rev().find(declared).is_some_and(|scope| scope.statics.contains(name))
    }

    /// Whether an item called `name` is declared in sight.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.own.contains(name))
    }

    /// What `path` means here.
    pub(crate) fn meaning(&self, path: Vec<String>) -> Meaning {
        let mut path = path;
        let mut inner = self.scopes.len();
        // Each step looks further out, so a chain of aliases ends.
        while let Some(first) = path.first() {
            if matches!(first.as_str(), "crate" | "self" | "super" | "Self") {
                return Meaning::Own;
            }
            let declares = |scope: &Scope| scope.own.contains(first) || scope.known.contains_key(first);
            let Some(at) = self.scopes.iter().take(inner).rposition(declares) else { break };
            let scope = &self.scopes[at];
            let Some(target) = scope.known.get(first) else { return Meaning::Own };
            if target.first() == Some(first) {
                path = target.iter().chain(&path[1..]).cloned().collect();
                break;
            }
            path = target.iter().chain(&path[1..]).cloned().collect();
            inner = if scope.known.contains_key(&path[0]) { at + 1 } else { at };
            if path.len() > 32 {
                break;
            }
        }
        let globbed: Vec<Vec<String>> = self
            .scopes
            .iter()
            .flat_map(|scope| &scope.globs)
            .map(|glob| glob.iter().chain(&path).cloned().collect())
            .collect();
        if globbed.is_empty() {
            Meaning::Path(path)
        } else {
            Meaning::Maybe(std::iter::once(path).chain(globbed).collect())
        }
    }
}

impl Scope {
    fn declare(&mut self, item: &Item) {
        match item {
            Item::Use(item) => self.import(&mut Vec::new(), &item.tree),
            Item::ExternCrate(item) => {
                if let Some((_, name)) = &item.rename {
                    self.known.insert(text(name), vec![text(&item.ident)]);
                }
            }
            Item::Type(item) => match &*item.ty {
                Type::Path(ty) if ty.qself.is_none() => {
                    self.known.insert(text(&item.ident), segments(&ty.path));
                }
                _ => self.own(&item.ident),
            },
            Item::Static(item) => {
                self.own(&item.ident);
                let mutable = matches!(item.mutability, syn::StaticMutability::Mut(_));
                if mutable || changes(&item.ty) {
                    self.statics.insert(text(&item.ident));
                }
            }
            Item::Const(item) => self.own(&item.ident),
            Item::Enum(item) => self.own(&item.ident),
            Item::Fn(item) => self.own(&item.sig.ident),
            Item::Mod(item) => self.own(&item.ident),
            Item::Struct(item) => self.own(&item.ident),
            Item::Trait(item) => self.own(&item.ident),
            Item::Union(item) => self.own(&item.ident),
            _ => {}
        }
    }

    fn own(&mut self, ident: &Ident) {
        self.own.insert(text(ident));
    }

    fn import(&mut self, prefix: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(text(&path.ident));
                self.import(prefix, &path.tree);
                prefix.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = prefix.last() {
                    self.known.insert(last.clone(), prefix.clone());
                }
            }
            UseTree::Name(name) => self.bring(prefix, &name.ident, text(&name.ident)),
            UseTree::Rename(name) if name.ident == "self" => {
                self.known.insert(text(&name.rename), prefix.clone());
            }
            UseTree::Rename(name) => self.bring(prefix, &name.ident, text(&name.rename)),
            UseTree::Glob(_) => {
                let inside =
                    prefix.first().is_none_or(|first| matches!(first.as_str(), "crate" | "self" | "super"));
                if !inside {
                    self.globs.push(prefix.clone());
                }
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(prefix, tree)),
        }
    }

    fn bring(&mut self, prefix: &[String], ident: &Ident, name: String) {
        let path = prefix.iter().cloned().chain([text(ident)]).collect();
        self.known.insert(name, path);
    }
}

/// Whether a static of this type can hold another value later.
fn changes(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let name = last.ident.to_string();
    name.starts_with("Atomic")
        || matches!(
            name.as_str(),
            "Mutex"
                | "RwLock"
                | "OnceLock"
                | "OnceCell"
                | "LazyLock"
                | "Lazy"
                | "ReentrantLock"
                | "SyncUnsafeCell"
                | "ArcSwap"
                | "DashMap"
                | "Once"
        )
}

fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// The names of a path.
pub(crate) fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| text(&segment.ident)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(items: &str, path: &str) -> Meaning {
        let file: syn::File = syn::parse_str(items).unwrap();
        let mut names = Names::default();
        names.enter(&file.items);
        names.meaning(path.split("::").map(str::to_owned).collect())
    }

    fn is(path: &str) -> Meaning {
        Meaning::Path(path.split("::").map(str::to_owned).collect())
    }

    #[test]
    fn imports_and_aliases_are_followed() {
        assert_eq!(
            meaning("use std::time::SystemTime as Clock;", "Clock::now"),
            is("std::time::SystemTime::now")
        );
        assert_eq!(meaning("use std::{env::{self, var as v}, fs};", "v"), is("std::env::var"));
        assert_eq!(meaning("use std::{env::{self as e}, fs};", "e::var"), is("std::env::var"));
        assert_eq!(
            meaning("use std::time as t; type C = t::Instant;", "C::now"),
            is("std::time::Instant::now")
        );
        assert_eq!(meaning("extern crate rand as dice;", "dice::random"), is("rand::random"));
        assert_eq!(meaning("use rand; use a::b as c; use c::d as b;", "rand::rng"), is("rand::rng"));
    }

    #[test]
    fn own_items_are_own() {
        assert_eq!(meaning("struct Instant;", "Instant::now"), Meaning::Own);
        assert_eq!(meaning("use crate::clock::Instant;", "Instant::now"), Meaning::Own);
        assert_eq!(meaning("mod thread {}", "thread::spawn"), Meaning::Own);
        assert_eq!(meaning("", "super::thread::spawn"), Meaning::Own);
    }

    #[test]
    fn globs_are_possible_meanings() {
        let Meaning::Maybe(all) = meaning("use std::env::*;", "var") else { panic!() };
        assert_eq!(all.last().unwrap().join("::"), "std::env::var");
        assert_eq!(meaning("use super::*;", "var"), is("var"));
    }

    #[test]
    fn statics_that_change_are_known() {
        let file: syn::File =
            syn::parse_str("static A: Mutex<u8> = X; static B: &str = Y; static mut C: u8 = 0;").unwrap();
        let mut names = Names::default();
        names.enter(&file.items);
        assert_eq!(["A", "B", "C"].map(|name| names.is_changing_static(name)), [true, false, true]);
    }
}
