//! The rules of a crate's layout, checked on its source text. Each crate that has floors includes this file in a test.
//!
//! A *unit* is a folder of `src/`, or a file that stands beside the folders. It fails when
//! 1. a unit imports one of its own floor or above, or has no floor;
//! 2. files import each other in a circle;
//! 3. a type gets inherent methods outside the unit that defines it;
//! 4. an import does not name the file that defines what it takes, or a folder's `mod.rs` defines something;
//! 5. the code map in `ARCHITECTURE.md` is not the one that `map` makes of the sources.
//!
//! Imports are read from the tokens of `crate::`, `super::`, `self::` and `child::` paths wherever they stand, so a path
//! in an expression or in a macro counts as much as a `use`. What is only compiled for tests is left out.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each crate includes this file as a module of a test"
)]

mod map;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;

/// The layout that a crate promises.
pub struct Layout {
    /// The folder whose units these are, as a module path: empty for the whole crate. What `crate::` paths name outside
    /// of it is another layout's.
    pub root: &'static str,
    /// Units from the ground up. Two units of one floor do not import each other.
    pub floors: &'static [&'static [&'static str]],
    /// Types that may get methods in a unit that does not define them: `(type, unit)`.
    pub elsewhere: &'static [(&'static str, &'static str)],
}

/// One source file: its module path below the crate's root, and its text.
pub struct Source {
    pub module: String,
    pub text: String,
}

/// Asserts that the sources of the crate whose test this is keep `layout`, and that `ARCHITECTURE.md` has its map.
pub fn assert_kept(layout: &Layout) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new("src").join(layout.root);
    let sources = sources(&package.join(&folder));
    let faults = check(layout, &sources);
    assert!(faults.is_empty(), "against the floors:\n{}", faults.join("\n"));
    let name = match layout.root {
        "" => env!("CARGO_PKG_NAME").to_owned(),
        _ => format!("{}/{}", env!("CARGO_PKG_NAME"), folder.display()),
    };
    map::assert_written(&package.join("../ARCHITECTURE.md"), &name, &map::render(layout, &sources));
}

/// All sources of a crate but its root, tests left out.
pub fn sources(src: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs")
                && !is_root(src, &path)
                && name != "tests"
            {
                let below = path.strip_prefix(src).unwrap().with_extension("");
                let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
                found
                    .push(Source { module: parts.join("::"), text: std::fs::read_to_string(&path).unwrap() });
            }
        }
    }
    found.retain(|source| !source.module.split("::").any(|part| part == "tests"));
    found.sort_by(|a, b| a.module.cmp(&b.module));
    found
}

fn is_root(src: &Path, path: &Path) -> bool {
    path.parent() == Some(src) && path.file_stem().is_some_and(|name| name == "lib" || name == "mod")
}

/// What is wrong with the layout of `sources`.
pub fn check(layout: &Layout, sources: &[Source]) -> Vec<String> {
    let files: Vec<File> = sources.iter().map(|source| File::read(source, layout.root)).collect();
    let mut wrong = Vec::new();
    let defined = defined(&files);
    let mut arrows = BTreeMap::<&str, BTreeSet<&str>>::new();
    for file in &files {
        if layout.floor(file.unit()).is_none() {
            wrong.push(format!("`{}` stands on no floor: give it one in this test", file.unit()));
            continue;
        }
        let into = arrows.entry(&file.module).or_default();
        for import in &file.imports {
            match target(layout, file, import, &files) {
                Ok(target) => into.extend(target.filter(|target| *target != file.module)),
                Err(fault) => wrong.push(format!("{} imports crate::{import}, {fault}", file.module)),
            }
        }
        for name in &file.methods {
            let home = defined.get(&**name).is_none_or(|units| units.contains(file.unit()));
            if !home && !layout.elsewhere.contains(&(name, file.unit())) {
                let homes = &defined[&**name];
                wrong.push(format!("{} gives `{name}` methods, which is defined in {homes:?}", file.module));
            }
        }
        if file.is_face && file.defines {
            let face = &file.module;
            wrong.push(format!("{face}.rs defines something: a face holds `mod` and `pub use` only"));
        }
    }
    let circles = circles(arrows);
    if !circles.is_empty() {
        wrong.push(format!("in circles, or between two: {circles:#?}"));
    }
    wrong
}

/// The file that an import names, if it is one of ours; or what is wrong with the import.
fn target<'f>(
    layout: &Layout,
    file: &File,
    import: &str,
    files: &'f [File],
) -> Result<Option<&'f str>, String> {
    if let Some(lender) = files.iter().find(|lender| lender.lent.contains(import)) {
        let lender = &lender.module;
        return Err(format!("which {lender} has from elsewhere: name the file that defines it"));
    }
    let unit = import.split("::").next().unwrap();
    let named = files.iter().map(|file| &*file.module).filter(|module| is_inside(import, module));
    let Some(target) = named.max_by_key(|module| module.len()) else {
        // A macro or a re-export of the crate's root is nobody's file.
        let inside = format!("{unit}::");
        let is_ours = files.iter().any(|file| file.module.starts_with(&inside));
        return if is_ours { Err("which names no file".into()) } else { Ok(None) };
    };
    if unit != file.unit() && layout.floor(unit) >= layout.floor(file.unit()) {
        return Err("which does not stand below it".into());
    }
    Ok(Some(target))
}

/// What is left when whoever imports nothing that is left is taken away, and whoever is imported by nothing that is left.
fn circles<'f>(mut arrows: BTreeMap<&'f str, BTreeSet<&'f str>>) -> BTreeMap<&'f str, BTreeSet<&'f str>> {
    loop {
        let left: BTreeSet<_> = arrows.keys().copied().collect();
        let imported: BTreeSet<_> = arrows.values().flatten().copied().collect();
        arrows.values_mut().for_each(|to| to.retain(|file| left.contains(file)));
        arrows.retain(|file, to| !to.is_empty() && imported.contains(file));
        if arrows.len() == left.len() {
            return arrows;
        }
    }
}

impl Layout {
    fn floor(&self, unit: &str) -> Option<usize> {
        self.floors.iter().position(|floor| floor.contains(&unit))
    }
}

/// Which units define a type of which name.
fn defined(files: &[File]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut defined = BTreeMap::<&str, BTreeSet<&str>>::new();
    for file in files {
        for name in &file.types {
            defined.entry(name).or_default().insert(file.unit());
        }
    }
    defined
}

/// Whether `import` is the file `module`, or something in it.
fn is_inside(import: &str, module: &str) -> bool {
    import.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// What a source file says about the layout.
struct File {
    module: String,
    is_face: bool,
    defines: bool,
    /// Files of the folder that has this file's name.
    children: BTreeSet<String>,
    imports: BTreeSet<String>,
    /// What it has from other files and offers as its own.
    lent: BTreeSet<String>,
    types: BTreeSet<String>,
    methods: BTreeSet<String>,
}

impl File {
    fn read(source: &Source, root: &str) -> Self {
        let parsed =
            syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.module));
        // `a/mod.rs` is the module `a`, and `super` in it is the root.
        let is_face = source.module.ends_with("::mod");
        let module = source.module.strip_suffix("::mod").unwrap_or(&source.module).to_owned();
        let mut file = Self {
            is_face,
            defines: false,
            children: parsed.items.iter().filter_map(child).collect(),
            imports: BTreeSet::new(),
            lent: BTreeSet::new(),
            types: BTreeSet::new(),
            methods: BTreeSet::new(),
            module,
        };
        for item in parsed.items {
            file.item(&item, root);
        }
        if is_face {
            file.imports.clear();
            file.lent.clear();
            file.module = source.module.clone();
        }
        file
    }

    fn unit(&self) -> &str {
        self.module.split("::").next().unwrap()
    }

    fn item(&mut self, item: &syn::Item, root: &str) {
        use syn::Item;
        if attributes(item).iter().any(is_for_tests) {
            return;
        }
        self.defines |= !matches!(item, Item::Mod(syn::ItemMod { content: None, .. }) | Item::Use(_));
        match item {
            Item::Struct(item) => drop(self.types.insert(item.ident.to_string())),
            Item::Enum(item) => drop(self.types.insert(item.ident.to_string())),
            Item::Impl(syn::ItemImpl { trait_: None, self_ty, .. }) => {
                if let syn::Type::Path(path) = &**self_ty {
                    self.methods.extend(path.path.segments.last().map(|segment| segment.ident.to_string()));
                }
            }
            _ => {}
        }
        let module = format!("{root}::{}", self.module);
        let mut found = BTreeSet::new();
        Paths { module: module.trim_start_matches(':'), children: &self.children }
            .collect(item.to_token_stream(), &mut found);
        let below = found.iter().filter_map(|path| match root {
            "" => Some(path.clone()),
            root => path.strip_prefix(root)?.strip_prefix("::").map(str::to_owned),
        });
        let below: Vec<String> = below.collect();
        if let Item::Use(syn::ItemUse {
            vis: syn::Visibility::Public(_) | syn::Visibility::Restricted(_),
            ..
        }) = item
        {
            let names = below.iter().filter_map(|path| path.rsplit("::").next());
            self.lent.extend(names.map(|name| format!("{}::{name}", self.module)));
        }
        self.imports.extend(below);
    }
}

/// The name of a module that stands in a file of its own.
fn child(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Mod(item) if item.content.is_none() && !item.attrs.iter().any(is_for_tests) => {
            Some(item.ident.to_string())
        }
        _ => None,
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.to_token_stream().to_string().replace(' ', "").contains("(test)")
}

/// The paths of one file that lead to files of its crate.
struct Paths<'f> {
    module: &'f str,
    children: &'f BTreeSet<String>,
}

impl Paths<'_> {
    /// Collects every path after `crate::`, `super::`, `self::` and the name of a child, relative to the crate's root.
    fn collect(&self, tokens: TokenStream, found: &mut BTreeSet<String>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                // The group of a path is read with it.
                TokenTree::Group(group) if !(at >= 2 && is_colons(&tokens, at - 2)) => {
                    self.collect(group.stream(), found);
                }
                // `pub(crate)` and `pub(super)` are no paths.
                TokenTree::Ident(ident) if begins_path(&tokens, at) && is_colons(&tokens, at + 1) => {
                    if let Some((base, rest)) = self.base(&ident.to_string(), at) {
                        tree(&tokens, rest, &base, found);
                    }
                }
                _ => {}
            }
        }
    }

    /// What a path that begins with `name`, at `at`, is relative to, and where its rest begins.
    fn base(&self, name: &str, at: usize) -> Option<(String, usize)> {
        let rest = at + 3;
        match name {
            "crate" => Some((String::new(), rest)),
            "self" => Some((self.module.to_owned(), rest)),
            "super" => Some((self.module.rsplit_once("::").map_or("", |(above, _)| above).to_owned(), rest)),
            child if self.children.contains(child) => Some((self.module.to_owned(), at)),
            _ => None,
        }
    }
}

/// Reads the rest of a path, from `at` on: names between colons, or a group of such paths.
fn tree(tokens: &[TokenTree], mut at: usize, base: &str, found: &mut BTreeSet<String>) {
    let mut path: Vec<String> = base.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(ident) if ident == "super" => drop(path.pop()),
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let commas =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
                for part in inner.split(commas).filter(|part| !part.is_empty()) {
                    tree(part, 0, &path.join("::"), found);
                }
                return;
            }
            _ => break,
        }
        if !is_colons(tokens, at + 1) {
            break;
        }
        at += 3;
    }
    if !path.is_empty() {
        found.insert(path.join("::"));
    }
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(at) && colon(at + 1)
}

/// Whether no path is under way before `at`: the second `super` of `super::super` begins none, and `$crate` in a macro is
/// the crate as its users see it.
fn begins_path(tokens: &[TokenTree], at: usize) -> bool {
    let dollar = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '$');
    let continues = at >= 2 && is_colons(tokens, at - 2);
    !(continues || at >= 1 && dollar(&tokens[at - 1]))
}
