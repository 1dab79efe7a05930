//! What compiles and what does not, with the messages as people see them.
//!
//! `AETHER_BLESS=1 cargo test --test it ui` writes the messages anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::built::{built, root, side_by_side};

/// Lines that say nothing of the mistake.
const NOISE: [&str; 5] = [
    "error: aborting due to ",
    "For more information about this error, try",
    "For more information about an error, try",
    "Some errors have detailed explanations:",
    "= note: the full ",
];

#[test]
fn mistakes_do_not_compile() {
    let wrong: Vec<String> =
        side_by_side(&cases("fail"), |case| mistake(case)).into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with the message about a mistake.
fn mistake(case: &Path) -> Option<String> {
    let name = case.strip_prefix(root()).unwrap().display();
    let output = compile(case.strip_prefix(root()).unwrap());
    if output.status.success() {
        return Some(format!("{name} compiles"));
    }
    let (said, file) = (shown(&String::from_utf8_lossy(&output.stderr)), case.with_extension("stderr"));
    let known = fs::read_to_string(&file).unwrap_or_default();
    if canonical(&known) == canonical(&said) {
        return None;
    }
    if std::env::var_os("AETHER_BLESS").is_some() {
        fs::write(&file, said).unwrap();
        return None;
    }
    Some(format!("{name} is told:\n{said}\nand not, as {} says:\n{known}", file.display()))
}

#[test]
fn remedies_compile() {
    let wrong: Vec<String> = side_by_side(&cases("pass"), |case| {
        let output = compile(case.strip_prefix(root()).unwrap());
        let said = String::from_utf8_lossy(&output.stderr);
        (!output.status.success() || !said.trim().is_empty()).then(|| format!("{}: {said}", case.display()))
    })
    .into_iter()
    .flatten()
    .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The mistakes of a page are its blocks marked `rs`, which are no doctests.
#[test]
fn pages_of_mistakes_show_what_the_compiler_says() {
    let folder = fs::read_dir(root().join("docs/diagnostics")).unwrap();
    let pages: Vec<_> = folder.map(|page| page.unwrap().path()).collect();
    let wrong: Vec<_> = side_by_side(&pages, |page| wrong_page(page)).into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with the mistakes of a page.
fn wrong_page(page: &Path) -> Option<String> {
    let (code, text) = (page.file_stem().unwrap().to_str().unwrap(), fs::read_to_string(page).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut said = String::new();
    for (number, mistake) in blocks(&text, "rs").into_iter().enumerate() {
        let case = folder.path().join(format!("{code}_{number}.rs"));
        fs::write(&case, mistake + "\nfn main() {}\n").unwrap();
        let output = compile(&case);
        let told = String::from_utf8(output.stderr).unwrap();
        if output.status.success() || !told.contains(&format!("error: [{code}]")) {
            return Some(format!("{code}: the mistake {number} is told:\n{told}"));
        }
        said += &told;
    }
    let promised = blocks(&text, "text").into_iter().next().unwrap_or_default();
    let promised = promised.lines().next().filter(|line| line.starts_with("error: [")).unwrap_or_default();
    (!said.contains(promised)).then(|| format!("{code}: the compiler does not say {promised}, but:\n{said}"))
}

/// The blocks of a page that are marked so.
fn blocks(page: &str, mark: &str) -> Vec<String> {
    let begin = format!("\n```{mark}\n");
    page.split(&begin).skip(1).map(|block| block.split_once("\n```").unwrap().0.to_owned()).collect()
}

/// Checks one program.
fn compile(case: &Path) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut rustc = built().rustc();
    rustc.args(["--emit=metadata", "--crate-type=bin", "--diagnostic-width=140"]);
    // Variables that cargo would set.
    rustc.env("CARGO_PKG_NAME", "ui");
    rustc.arg("--out-dir").arg(folder.path()).arg(case).output().unwrap()
}

/// A compiler's output as it is kept: without noise, with paths below the workspace, and without the numbers of lines
/// outside of the case, which change with any edit there.
fn shown(output: &str) -> String {
    let (mut text, mut outside) = (String::new(), false);
    for line in output.lines().map(str::trim_end) {
        if NOISE.iter().any(|noise| line.trim_start().starts_with(noise)) {
            continue;
        }
        // The long form where a crate of the tests has a public type of that name, too.
        let line =
            line.replace(&format!("{}/", root().display()), "").replace("std::string::String", "String");
        let start = line.trim_start();
        if start.starts_with("--> ") || start.starts_with("::: ") {
            outside = !start[4..].starts_with("tests/ui/");
        } else if !start.starts_with(|first: char| first.is_ascii_digit() || "|.".contains(first)) {
            outside = false;
        }
        let line = match start.strip_prefix("and ").and_then(|rest| rest.strip_suffix(" others")) {
            Some(number) => line.replace(number, "$N"),
            None if outside => without_number(&line),
            None => line,
        };
        if !(line.is_empty() && text.ends_with("\n\n")) {
            text = text + &line + "\n";
        }
    }
    text.trim_end().to_owned() + "\n"
}

/// A line of a snippet without its number, and a place without line and column.
fn without_number(line: &str) -> String {
    let (begin, rest) = line.split_at(line.len() - line.trim_start().len());
    if !rest.starts_with(['-', ':']) {
        let code = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        return format!("{begin}{}{code}", " ".repeat(rest.len() - code.len()));
    }
    let end = rest.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':');
    format!("{begin}{end}")
}

/// A message without the indentation that the widest number of a line decides.
fn canonical(message: &str) -> Vec<String> {
    let lines = message.lines().map(|line| {
        let (number, rest) = line.split_once('|').unwrap_or(("", line));
        if line.contains('|') && number.chars().all(|c| c == ' ' || c.is_ascii_digit()) {
            format!("{}|{}", number.trim(), rest.trim_end())
        } else {
            line.trim().to_owned()
        }
    });
    lines.filter(|line| !line.is_empty()).collect()
}

/// Every case of one side, in order.
fn cases(side: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for rule in fs::read_dir(root().join("tests/ui")).unwrap() {
        let Ok(cases) = fs::read_dir(rule.unwrap().path().join(side)) else { continue };
        found.extend(
            cases.map(|case| case.unwrap().path()).filter(|case| case.extension().is_some_and(|e| e == "rs")),
        );
    }
    found.sort();
    found
}

#[test]
fn there_are_many_cases_and_passing_ones_deny_warnings() {
    let (fail, pass) = (cases("fail"), cases("pass"));
    assert!(fail.len() + pass.len() >= 130, "{} and {}", fail.len(), pass.len());
    for case in pass {
        let text = fs::read_to_string(&case).unwrap();
        assert!(text.lines().take(2).any(|line| line == "#![deny(warnings)]"), "{case:?}");
    }
}

#[test]
fn three_mistakes_are_three_errors() {
    for name in ["three_mistakes", "three_in_a_step"] {
        let text = fs::read_to_string(root().join(format!("tests/ui/noise/fail/{name}.stderr"))).unwrap();
        let errors = text.lines().filter(|line| line.starts_with("error")).count();
        let other = text.lines().filter(|line| line.starts_with("warning")).count();
        assert_eq!((errors, other), (3, 0), "{text}");
    }
}

#[test]
fn workflows_in_realistic_style_are_forty() {
    let realistic = cases("pass").into_iter().filter(|case| case.iter().any(|part| part == "realistic"));
    let texts = realistic.map(|case| fs::read_to_string(case).unwrap());
    let mut numbers: Vec<u32> = texts
        .flat_map(|text| {
            text.lines().filter_map(|line| line.trim().strip_prefix("// ")?.parse().ok()).collect::<Vec<_>>()
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<u32>>());
}
