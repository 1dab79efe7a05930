//! The code map of a crate, made of its sources: floors from the roof down, and of each room what its `//!` says.
//!
//! Promise: the map has exactly the floors and rooms of the layout and every file of every room. It stands in
//! `ARCHITECTURE.md` between `<!-- floors: name -->` and `<!-- end -->`; with `AETHER_BLESS=1` it is written there.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::{Layout, Source};

/// The map of `sources` as a table.
pub fn render(layout: &Layout, sources: &[Source]) -> String {
    let mut table =
        String::from("| floor | room | what it is, and what it promises | files |\n|---|---|---|---|\n");
    for (floor, units) in layout.floors.iter().enumerate().rev() {
        for unit in *units {
            let (name, says, files) = room(unit, sources);
            assert!(!says.is_empty(), "`{unit}` has a floor, and no file whose `//!` says what it is");
            let _written = writeln!(table, "| {} | {name} | {says} | {files} |", floor + 1);
        }
    }
    table
}

/// The name of a unit, what it says of itself, and its files.
fn room(unit: &str, sources: &[Source]) -> (String, String, String) {
    let text =
        |module: &str| sources.iter().find(|source| source.module == module).map(|source| &*source.text);
    let head = |text: &str| paragraphs(text).into_iter().next().unwrap_or_default();
    let Some(face) = text(&format!("{unit}::mod")) else {
        return (format!("`{unit}.rs`"), text(unit).map(head).unwrap_or_default(), String::new());
    };
    let mut says = head(face);
    if let Some(promise) = paragraphs(face).iter().find(|paragraph| paragraph.starts_with("Promise")) {
        let _written = write!(says, "<br>{}", without_imports(promise));
    }
    let below = sources.iter().filter_map(|source| source.module.strip_prefix(&format!("{unit}::")));
    let mut files: Vec<_> = below.filter(|name| name.rsplit("::").next() != Some("mod")).collect();
    if files.len() > CELL {
        // Such a room has floors and a map of its own.
        files = files.iter().map(|name| name.split_inclusive("::").next().unwrap_or(name)).collect();
        files.dedup();
    }
    let names: Vec<_> = files.iter().map(|name| format!("`{}`", name.replace("::", "/"))).collect();
    (format!("`{unit}/`"), says, names.join(" "))
}

/// More files than this do not fit into a cell.
const CELL: usize = 40;

/// A room's promise without what it imports, which the floors say, and without the head of a list.
fn without_imports(promise: &str) -> &str {
    let end = [" Imports ", " It imports "].iter().filter_map(|word| promise.find(word)).min();
    let promise = promise[..end.unwrap_or(promise.len())].trim_end();
    let list = promise.strip_suffix(':').and_then(|head| head.rfind(". "));
    list.map_or(promise, |sentence| &promise[..=sentence])
}

/// The paragraphs of a file's `//!`, each as one line of Markdown without links.
fn paragraphs(text: &str) -> Vec<String> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<&str> = lines.map(str::trim).collect();
    let joined = lines.split(|line| line.is_empty()).map(|lines| plain(&lines.join(" ")));
    joined.collect()
}

/// `text` without links, fit for a cell of a table.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("`]") {
        out.push_str(&before.replace("[`", "`"));
        out.push('`');
        rest = after.strip_prefix('(').and_then(|link| link.split_once(')')).map_or(after, |(_, rest)| rest);
    }
    out.push_str(rest);
    out.replace('|', "\\|")
}

/// One test writes at a time.
static PAGE: Mutex<()> = Mutex::new(());

/// Asserts that the block `name` of `page` is `map`; writes it there when that is asked for.
pub fn assert_written(page: &Path, name: &str, map: &str) {
    let _alone = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let text = std::fs::read_to_string(page).unwrap();
    let begin = format!("<!-- floors: {name} -->\n");
    let (before, rest) =
        text.split_once(&begin).unwrap_or_else(|| panic!("{page:?} has no `{}`", begin.trim()));
    let (written, after) = rest.split_once("<!-- end -->").unwrap();
    if written == map {
        return;
    }
    let refresh = "AETHER_BLESS=1 cargo test --workspace --test layout";
    assert!(
        std::env::var_os("AETHER_BLESS").is_some(),
        "{page:?}: the map of {name} is not that of its sources; write it with `{refresh}`. It should be:\n{map}"
    );
    std::fs::write(page, format!("{before}{begin}{map}<!-- end -->{after}")).unwrap();
}
