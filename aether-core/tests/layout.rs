//! The floors of `src/`, from the ground up: what a room may import. `ARCHITECTURE.md` has their map, and names no path
//! and nothing in code that is not there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[path = "../../tests/layout/floors.rs"]
mod floors;

use floors::{Layout, Source, assert_kept, check};

const LAYOUT: Layout = Layout {
    root: "",
    floors: &[
        &["sched"],
        &["vocabulary"],
        &["definition", "journal"],
        &["policy", "store"],
        &["codec", "inbox", "recording", "stream"],
        &["step"],
        &["run"],
        &["perform", "view"],
        &["workflow"],
        &["engine", "private"],
    ],
    // The typed side of a type that knows no types.
    elsewhere: &[("RegisteredWorkflow", "workflow")],
};

#[test]
fn the_house_has_floors_and_no_circles() {
    assert_kept(&LAYOUT);
}

/// The faults of a small tree of two floors, `ground` and `roof`.
fn faults(files: &[(&str, &str)]) -> Vec<String> {
    let layout =
        Layout { root: "", floors: &[&["ground", "cellar"], &["roof"]], elsewhere: &[("Lent", "roof")] };
    let source = |(module, text): &(&str, &str)| Source { module: (*module).into(), text: (*text).into() };
    check(&layout, &files.iter().map(source).collect::<Vec<_>>())
}

#[test]
fn a_tree_that_keeps_the_rules_has_no_fault() {
    let fine = [
        ("ground::mod", "mod stone;\npub use stone::Stone;"),
        ("ground::stone", "mod egg; use other::{egg::X}; pub struct Stone; impl Stone {} pub struct Lent;"),
        ("ground::stone::egg", "use super::Stone; mod shell { use self::inner::X; use super::Stone; }"),
        ("roof::tile", "use crate::ground::stone::{Lent, Stone}; impl Clone for Stone {} impl Lent {}"),
    ];
    assert_eq!(faults(&fine), Vec::<String>::new());
}

#[test]
fn each_fault_is_found_in_the_tree_that_has_it() {
    let stone = ("ground::stone", "pub struct Stone;");
    let tile = ("roof::tile", "pub struct Tile;");
    let egg = ("ground::stone::egg", "use crate::ground::stone::Stone; pub struct Egg;");
    let planted: [(&str, Vec<(&str, &str)>); 13] = [
        ("does not stand below", vec![("ground::stone", "use crate::roof::tile::Tile;"), tile]),
        ("does not stand below", vec![("ground::stone", "use super::super::roof::{tile::Tile};"), tile]),
        ("does not stand below", vec![("ground::stone", "fn f() { vec![crate::roof::tile::T] }"), tile]),
        ("does not stand below", vec![stone, ("cellar::coal", "use crate::ground::stone::Stone;")]),
        ("stands on no floor", vec![("shed::tool", "")]),
        (
            "in circles",
            vec![
                ("ground::stone", "use super::sand::Sand; pub struct Stone;"),
                ("ground::sand", "use crate::ground::stone::Stone; pub struct Sand;"),
            ],
        ),
        ("in circles", vec![("ground::stone", "mod egg; use self::egg::Egg; pub struct Stone;"), egg]),
        ("in circles", vec![("ground::stone", "mod egg; fn f() { egg::hatch() } pub struct Stone;"), egg]),
        ("in circles", vec![("ground::stone", "mod egg; use {egg::Egg}; pub struct Stone;"), egg]),
        (
            "has from elsewhere",
            vec![
                ("ground::stone", "mod egg; pub use egg::Egg;"),
                ("ground::stone::egg", "pub struct Egg;"),
                ("roof::tile", "use crate::ground::stone::Egg;"),
            ],
        ),
        ("gives `Stone` methods", vec![stone, ("roof::tile", "impl Stone { fn f() {} }")]),
        ("names no file", vec![stone, ("roof::tile", "use crate::ground::Stone;")]),
        ("defines something", vec![("ground::mod", "pub struct Stone;")]),
    ];
    for (fault, tree) in planted {
        let found = faults(&tree);
        assert!(found.len() == 1 && found[0].contains(fault), "{fault}: {found:?} in {tree:?}");
    }
    // Tests may import what they like.
    let tested = ("ground::stone", "#[cfg(test)] mod tests { use crate::roof::tile::Tile; }");
    assert_eq!(faults(&[tested, tile]), Vec::<String>::new());
}

#[test]
fn what_the_page_names_is_there() {
    let root = root();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let texts: Vec<String> =
        source_files(&root).iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let known: BTreeSet<&str> = texts.iter().flat_map(|text| text.split(|c| !is_of_a_word(c))).collect();
    let missing: Vec<&str> = code(&page).into_iter().filter(|span| !is_there(span, &root, &known)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:#?}");
    for planted in
        ["perform/nowhere.rs", "aether-core/nowhere/", "Engine::fly_away", "moon_exploded", "cx.fly_away(..)"]
    {
        assert!(!is_there(planted, &root, &known), "{planted}");
    }
}

#[test]
fn files_that_are_named_elsewhere_are_there() {
    let root = root();
    let mut files = source_files(&root);
    files
        .extend(["CONTRIBUTING.md", ".cargo/mutants.toml", "docs/guarantees.md"].map(|file| root.join(file)));
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let paths = text.split(|c| !(is_of_a_word(c) || "-./".contains(c)));
        let ours = paths
            .filter(|path| path.starts_with("aether-") && path.contains("/src/") && path.ends_with(".rs"));
        for path in ours {
            assert!(root.join(path).exists(), "{}: there is no {path}", file.display());
        }
    }
}

/// A file that no `mod` names is not compiled, and a test in it cannot fail.
#[test]
fn no_file_is_forgotten() {
    let root = root();
    let crates = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let folders = crates.chain([root.join("src"), root.join("tests/it")]).filter(|folder| folder.is_dir());
    let files = files_below(folders.collect());
    let forgotten: Vec<_> = files.iter().filter(|file| !is_named(file)).collect();
    assert!(forgotten.is_empty(), "no `mod` names {forgotten:#?}");
    assert!(!is_named(&root.join("tests/it/nowhere.rs")));
}

/// Whether a `mod` beside a file of sources, or above it, names it.
fn is_named(file: &Path) -> bool {
    let (folder, name) = (file.parent().unwrap(), file.file_stem().unwrap().to_str().unwrap());
    if ["lib", "main"].contains(&name) {
        return true;
    }
    let (folder, name) = match name {
        "mod" => (folder.parent().unwrap(), folder.file_name().unwrap().to_str().unwrap()),
        _ => (folder, name),
    };
    let above = [folder.with_extension("rs"), folder.parent().unwrap().join("lib.rs")];
    let beside = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = beside.chain(above).filter_map(|file| std::fs::read_to_string(file).ok());
    let below = folder.file_name().unwrap().to_str().unwrap();
    let names = [format!("mod {name};"), format!("\"{name}.rs\""), format!("\"{below}/{name}.rs\"")];
    texts.into_iter().any(|text| names.iter().any(|name| text.contains(name)))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources of the facade and of all crates.
fn source_files(root: &Path) -> Vec<PathBuf> {
    let crates = ["core", "effects", "macros", "postgres", "sqlite", "testing"]
        .map(|name| format!("aether-{name}/src"));
    files_below([root.join("src")].into_iter().chain(crates.iter().map(|folder| root.join(folder))).collect())
}

fn files_below(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(end) if end == "rs" => files.push(path),
                _ => {}
            }
        }
    }
    files
}

/// The code spans of a page; the maps, which are made of the sources, left out.
fn code(page: &str) -> Vec<&str> {
    let mut parts = page.split("<!-- floors: ");
    let mut prose: Vec<&str> = parts.next().into_iter().collect();
    prose.extend(parts.filter_map(|part| part.split_once("<!-- end -->")).map(|(_, after)| after));
    prose.iter().flat_map(|text| text.lines()).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Whether a code span is a path that exists, a name that the sources have, or neither a path nor a name.
fn is_there(span: &str, root: &Path, known: &BTreeSet<&str>) -> bool {
    if span.contains('/') && span.chars().all(|c| is_of_a_word(c) || "-./".contains(c)) {
        return root.join(span).exists() || root.join("aether-core/src").join(span).exists();
    }
    let name = span.split('(').next().unwrap_or_default();
    if name.ends_with(".rs") || !name.chars().all(|c| is_of_a_word(c) || ".:".contains(c)) {
        return true;
    }
    // A kind of event stands in a journal as `run_created` and in the sources as `RunCreated`.
    let camel = |word: &str| -> String {
        let parts = word.split('_').filter_map(|part| part.split_at_checked(1));
        parts.map(|(first, rest)| first.to_uppercase() + rest).collect()
    };
    let words = name.split(['.', ':']).filter(|word| !word.is_empty() && word.parse::<u32>().is_err());
    words.into_iter().all(|word| known.contains(word) || known.contains(&*camel(word)))
}

fn is_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
