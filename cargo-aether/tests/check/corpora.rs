//! The corpora: what the check finds in each way to be nondeterministic, and in what is deterministic.
//!
//! `found.txt` says what it found; with `AETHER_BLESS=1` it is written. The table of `docs/determinism.md` reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::project::{Finding, Project, kinds, root};

/// One case of a corpus: a workflow, named as its file.
#[derive(Debug)]
struct Case {
    name: String,
    /// What stands behind `how: `.
    how: String,
    path: PathBuf,
}

/// All files of one corpus.
fn cases(folder: &Path) -> Vec<Case> {
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut cases: Vec<Case> = files.map(|file| case(&file.unwrap().path())).collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn case(path: &Path) -> Case {
    let text = std::fs::read_to_string(path).unwrap();
    let how = text.lines().nth(1).and_then(|line| line.strip_prefix("//! how: "));
    let how = how.unwrap_or_else(|| panic!("the second line of {path:?} says `how`")).to_owned();
    Case { name: path.file_stem().unwrap().to_str().unwrap().to_owned(), how, path: path.to_owned() }
}

fn corpus(name: &str) -> PathBuf {
    root().join("cargo-aether/tests/corpus").join(name)
}

fn sins() -> Vec<Case> {
    let mut sins = cases(&root().join("tests/sins/corpus"));
    sins.retain(|sin| sin.how == "indirect");
    sins
}

/// The programs that compile in the tests of the attributes: what a message of the compiler advises, and agents as people
/// write them.
fn remedies() -> Vec<Case> {
    let folders = std::fs::read_dir(root().join("tests/ui")).unwrap().map(|folder| folder.unwrap().path());
    let of_folder = |folder: PathBuf| {
        let of = folder.file_name().unwrap().to_str().unwrap().to_lowercase();
        let files = std::fs::read_dir(folder.join("pass")).into_iter().flatten();
        files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|it| it == "rs"))
            .map(move |path| {
                let name = format!("{of}_{}", path.file_stem().unwrap().display());
                Case { name, how: String::new(), path }
            })
    };
    let mut remedies: Vec<Case> = folders.filter(|path| path.is_dir()).flat_map(of_folder).collect();
    // As a module of another crate, or without a crate that only they use, these two do not compile.
    remedies.retain(|remedy| !["quiet_renamed", "record_eyre"].contains(&remedy.name.as_str()));
    remedies.sort_by(|a, b| a.name.cmp(&b.name));
    remedies
}

/// The text of a crate with a module a case.
fn modules(cases: &[Case]) -> String {
    let mut text = String::from("#![allow(warnings)]\n");
    for Case { name, path, .. } in cases {
        let _writing_to_a_string = write!(text, "#[path = {path:?}]\npub mod {name};\n");
    }
    text
}

/// The text of a crate with a module a program. Programs are copied, for each denies warnings, such as that nobody calls its
/// `main`; into folders of their own, for one of them includes itself by its name.
fn copied(cases: &[Case], project: &Project) -> String {
    let mut text = String::from("#![allow(warnings)]\n");
    for Case { name, path, .. } in cases {
        let program = std::fs::read_to_string(path).unwrap().replace("#![deny(warnings)]", "");
        let file = format!("{name}/{}", path.file_name().unwrap().display());
        project.write(&format!("remedies/src/{file}"), &program);
        let _writing_to_a_string = write!(text, "#[path = {file:?}]\npub mod {name};\n");
    }
    text
}

/// One check of everything, notes included.
fn found() -> &'static [Finding] {
    static FOUND: OnceLock<Vec<Finding>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut project = Project::new("corpora");
        let kit = std::fs::read_to_string(root().join("tests/sins/kit.rs")).unwrap();
        project.package("kit", &[], "lib.rs", &kit);
        project.package("sins", &["kit"], "lib.rs", &modules(&sins()));
        for name in ["held_out", "clean", "flows"] {
            project.package(name, &[], "lib.rs", &modules(&cases(&corpus(name))));
        }
        project.package("remedies", &[], "lib.rs", &copied(&remedies(), &project));
        project.package("doors", &[], "lib.rs", &std::fs::read_to_string(corpus("doors.rs")).unwrap());
        for (service, crates) in SERVICES {
            for name in crates {
                project.copy(&corpus(service).join(name), &format!("{service}/{name}"));
            }
        }
        project.finish("");
        let said = project.check(&["--json", "--notes", "--", "--workspace"]);
        assert!(said.code == 1, "code {}: {}", said.code, said.err);
        eprintln!("{}", said.err);
        said.findings()
    })
}

const SERVICES: [(&str, &[&str]); 2] =
    [("service_loans", &["types", "rules", "flows"]), ("service_support", &["types", "flows"])];

/// What is found in the cases of one crate: of each, the kinds of errors.
fn by_case<'a>(krate: &str, cases: &'a [Case]) -> BTreeMap<&'a str, BTreeSet<&'static str>> {
    let of = |case: &Case| {
        let module = format!("{krate}::{}::", case.name);
        // What a pure step of another crate does is told of the step.
        let told_elsewhere = (case.name == "impure_pure_step").then_some("kit::counted");
        kinds(found().iter().filter(|found| {
            found.workflow.starts_with(&module)
                || told_elsewhere.is_some_and(|step| found.workflow == step)
                || found.chain.iter().any(|frame| frame.function.starts_with(&module))
        }))
    };
    cases.iter().map(|case| (case.name.as_str(), of(case))).collect()
}

/// The lines of `found.txt` for one crate.
fn lines(krate: &str, by_case: &BTreeMap<&str, BTreeSet<&str>>) -> String {
    let line = |(name, kinds): (&&str, &BTreeSet<&str>)| {
        let kinds: Vec<&str> = kinds.iter().copied().collect();
        format!("{krate}/{name}: {}\n", if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") })
    };
    by_case.iter().map(line).collect()
}

#[test]
fn what_is_found_in_each_case_is_what_the_file_says() {
    let (sins, held_out, clean, flows) =
        (sins(), cases(&corpus("held_out")), cases(&corpus("clean")), cases(&corpus("flows")));
    let mut text = String::from(
        "# What `cargo aether check` finds in each case; written by `AETHER_BLESS=1 cargo test`.\n",
    );
    for (krate, cases) in [("sins", &sins), ("held_out", &held_out), ("clean", &clean), ("flows", &flows)] {
        let by_case = by_case(krate, cases);
        let caught = by_case.values().filter(|kinds| !kinds.is_empty()).count();
        eprintln!("{krate}: {caught} of {}", cases.len());
        text += &lines(krate, &by_case);
    }
    let file = corpus("found.txt");
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    if known != text && std::env::var_os("AETHER_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
        return;
    }
    let changed: Vec<&str> = text.lines().filter(|line| !known.lines().any(|old| old == *line)).collect();
    assert!(
        known == text,
        "{file:?} is not up to date; write it with AETHER_BLESS=1. New:\n{}",
        changed.join("\n")
    );
}

#[test]
fn every_indirect_sin_is_found() {
    let sins = sins();
    assert!(sins.len() >= 65, "{} sins", sins.len());
    let by_case = by_case("sins", &sins);
    let missed: Vec<_> = by_case.iter().filter(|(_, kinds)| kinds.is_empty()).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn of_the_ways_that_were_written_after_the_rules_those_that_are_missed_are_known() {
    let cases = cases(&corpus("held_out"));
    assert!(cases.len() >= 110, "{} ways", cases.len());
    let by_case = by_case("held_out", &cases);
    let missed: Vec<_> =
        by_case.iter().filter(|(_, kinds)| kinds.is_empty()).map(|(name, _)| *name).collect();
    // Notes only: a table behind a cell may be a cache, and what is kept of a map may not depend on its order. The third
    // asks what is logged, as every line of a log does.
    assert_eq!(missed, ["interned_symbols", "retain_the_first_ones", "verbosity_of_the_log"]);
}

#[test]
fn what_is_deterministic_is_not_called_otherwise() {
    let (clean, flows) = (cases(&corpus("clean")), cases(&corpus("flows")));
    assert!(clean.len() >= 60 && flows.len() >= 40, "{} and {}", clean.len(), flows.len());
    let remedies = remedies();
    assert!(remedies.len() >= 110, "{} remedies", remedies.len());
    let wrong = |krate: &str, cases: &[Case]| -> Vec<String> {
        by_case(krate, cases)
            .into_iter()
            .filter(|(_, kinds)| !kinds.is_empty())
            .map(|(name, kinds)| format!("{name}: {kinds:?}"))
            .collect()
    };
    // Whether the order of a hash map shows depends on what is done with each entry, which an object file does not say.
    let cannot_be_told = ["hash_map_into_array: {\"hash\"}", "spelling_suggestions: {\"hash\"}"];
    assert_eq!(wrong("clean", &clean), cannot_be_told);
    assert_eq!(wrong("flows", &flows), [""; 0]);
    assert_eq!(wrong("remedies", &remedies), [""; 0]);
    let of_services = found().iter().filter(|found| {
        found.level == "error" && ["loans", "support"].iter().any(|name| found.workflow.starts_with(name))
    });
    assert_eq!(of_services.map(|found| (&found.workflow, &found.source)).collect::<Vec<_>>(), []);
}

#[test]
fn every_door_is_found_on_this_toolchain() {
    let text = std::fs::read_to_string(corpus("doors.rs")).unwrap();
    let (mut kind, mut missed, mut doors) = ("", Vec::new(), 0);
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("doors! { in_") {
            kind = head.split(' ').next().unwrap();
        } else if let Some((name, _)) =
            line.trim().split_once(" =").filter(|_| line.starts_with("    ") && !kind.is_empty())
        {
            doors += 1;
            let function = format!("doors::in_{kind}::{name}");
            let is_it = |found: &Finding| {
                let through = found.chain.iter().any(|frame| frame.function == function);
                through && found.level == "error" && found.kind == kind
            };
            if !found().iter().any(is_it) {
                missed.push(function);
            }
        } else if line == "}" {
            kind = "";
        }
    }
    assert!(doors >= 20 && missed.is_empty(), "{doors} doors; missed: {missed:#?}");
}

#[test]
fn the_table_of_kinds_in_the_docs_is_that_of_the_program() {
    let table =
        std::process::Command::new(env!("CARGO_BIN_EXE_cargo-aether")).arg("sources").output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    let path = root().join("docs/check.md");
    let docs = std::fs::read_to_string(&path).unwrap();
    let (before, rest) =
        docs.split_once("<!-- kinds: written by `AETHER_BLESS=1 cargo test -p cargo-aether` -->\n").unwrap();
    let (known, after) = rest.split_once("<!-- end of kinds -->").unwrap();
    if known != table && std::env::var_os("AETHER_BLESS").is_some() {
        let written = format!(
            "{before}<!-- kinds: written by `AETHER_BLESS=1 cargo test -p cargo-aether` -->\n{table}<!-- end of kinds -->{after}"
        );
        std::fs::write(path, written).unwrap();
        return;
    }
    assert_eq!(known, table, "write it with AETHER_BLESS=1");
}

#[test]
fn every_error_names_the_place_in_the_workspace() {
    for found in found().iter().filter(|found| found.level == "error") {
        let last = found.chain.iter().rfind(|frame| frame.local);
        let last = last.unwrap_or_else(|| panic!("no frame of the workspace: {found:?}"));
        assert!(last.file.is_some() && last.line.is_some(), "{found:?}");
    }
}
