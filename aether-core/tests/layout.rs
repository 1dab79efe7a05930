//! The floors of `src/`, from the ground up: what a room may import. See the code map in `ARCHITECTURE.md`.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../tests/layout/floors.rs"]
mod floors;

use floors::{Layout, Source, assert_kept, check};

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
