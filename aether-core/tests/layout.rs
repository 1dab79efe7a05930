//! The floors of `src/`, from the ground up: what a room may import. See the code map in `ARCHITECTURE.md`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

#[path = "../../tests/layout/floors.rs"]
mod floors;

use floors::{Layout, Source, check, sources};

const LAYOUT: Layout = Layout {
    root: "",
    floors: &[
        &["vocabulary"],
        &["definition", "journal"],
        &["policy", "store"],
        &["inbox", "recording", "step"],
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
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (wrong, table) = check(&LAYOUT, &sources(&src));
    println!("{table}");
    assert!(wrong.is_empty(), "against the floors:\n{}", wrong.join("\n"));
}

/// The faults of a small tree of two floors, `ground` and `roof`.
fn faults(files: &[(&str, &str)]) -> Vec<String> {
    let layout =
        Layout { root: "", floors: &[&["ground", "cellar"], &["roof"]], elsewhere: &[("Lent", "roof")] };
    let source = |(module, text): &(&str, &str)| Source { module: (*module).into(), text: (*text).into() };
    check(&layout, &files.iter().map(source).collect::<Vec<_>>()).0
}

#[test]
fn a_tree_that_keeps_the_rules_has_no_fault() {
    let fine = [
        ("ground::mod", "mod stone;\npub use stone::Stone;"),
        ("ground::stone", "pub struct Stone; impl Stone {} pub struct Lent;"),
        ("roof::tile", "use crate::ground::stone::{Lent, Stone}; impl Clone for Stone {} impl Lent {}"),
    ];
    assert_eq!(faults(&fine), Vec::<String>::new());
}

#[test]
fn each_fault_is_found_in_the_tree_that_has_it() {
    let stone = ("ground::stone", "pub struct Stone;");
    let tile = ("roof::tile", "pub struct Tile;");
    let planted: [(&str, Vec<(&str, &str)>); 9] = [
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
