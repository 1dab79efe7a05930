//! The table of sins in the docs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{Sin, Verdict};

const BEGIN: &str = "<!-- table: written by `AETHER_BLESS=1 cargo test --test it sins` -->\n";
const END: &str = "<!-- end of table -->\n";

/// The text between the marks, and its first lines.
pub(crate) struct Table {
    pub(crate) totals: String,
    pub(crate) text: String,
}

pub(crate) fn of(sins: &[Sin], verdicts: &BTreeMap<&str, Verdict>) -> Table {
    let totals = totals(sins, verdicts);
    let mut text = format!(
        "{totals}\n| sin | use | compile | check | trap | double run | stopped by |\n|---|---|---|---|---|---|---|\n"
    );
    for sin in sins {
        let verdict = &verdicts[sin.name.as_str()];
        let check = match verdict.check.as_str() {
            _ if !verdict.compile.is_empty() => "–",
            "" => "no",
            kinds => kinds,
        };
        let (trap, twice) = match (&verdict.trap, verdict.twice) {
            _ if !verdict.compile.is_empty() => ("–".into(), "–"),
            (Some(door), _) => (door.to_lowercase(), "–"),
            (None, twice) => ("no".into(), if twice { "yes" } else { "no" }),
        };
        let codes = if verdict.compile.is_empty() { "no".into() } else { verdict.compile.join(", ") };
        let usage = if sin.direct { "direct" } else { "indirect" };
        let layer = if verdict.layer() == "nothing" { "**nothing**" } else { verdict.layer() };
        let link = format!("[{}](../tests/sins/corpus/{}.rs)", sin.title, sin.name);
        let _writing_to_a_string =
            writeln!(text, "| {link} | {usage} | {codes} | {check} | {trap} | {twice} | {layer} |");
    }
    Table { totals, text }
}

fn totals(sins: &[Sin], verdicts: &BTreeMap<&str, Verdict>) -> String {
    let mut text = String::from(
        "| use | compile | check | trap | double run | nothing | of |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, direct) in [("direct", true), ("indirect", false)] {
        let of: Vec<&Verdict> =
            sins.iter().filter(|sin| sin.direct == direct).map(|sin| &verdicts[sin.name.as_str()]).collect();
        let count = |stops: fn(&Verdict) -> bool| of.iter().filter(|verdict| stops(verdict)).count();
        let _writing_to_a_string = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            count(|verdict| !verdict.compile.is_empty()),
            count(|verdict| verdict.compile.is_empty() && !verdict.check.is_empty()),
            count(|verdict| verdict.trap.is_some()),
            count(|verdict| verdict.twice),
            count(|verdict| verdict.layer() == "nothing"),
            of.len(),
        );
    }
    text
}

/// Compares with what stands in the docs, or writes it there.
pub(crate) fn check(path: &Path, table: &str) {
    let docs = fs::read_to_string(path).expect("the docs");
    let (before, rest) = docs.split_once(BEGIN).expect("the mark of the table's begin");
    let (known, after) = rest.split_once(END).expect("the mark of the table's end");
    if known == table {
        return;
    }
    if std::env::var_os("AETHER_BLESS").is_some() {
        fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).expect("the docs are written");
        return;
    }
    let changed: Vec<&str> = table.lines().filter(|line| !known.lines().any(|old| old == *line)).collect();
    panic!(
        "the table in {path:?} is not up to date; write it with AETHER_BLESS=1. New:\n{}",
        changed.join("\n")
    );
}
