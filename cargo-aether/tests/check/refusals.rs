//! What cannot be checked is said, and is never called clean.

use super::project::{Project, Said};

const FLOW: &str = "\
use aether::prelude::*;

#[workflow]
pub async fn flow(cx: &mut Cx, _input: u64) -> Result<u64> {
    Ok(cx.random().await)
}
";

fn project(name: &str, text: &str) -> Project {
    let mut project = Project::new(name);
    project.package(name, &[], "lib.rs", text);
    project.finish("");
    project
}

/// Demands exit code 2, nothing on the standard output, and an error with these words.
fn refuses(said: &Said, words: &[&str]) {
    assert!(said.code == 2 && said.out.is_empty(), "code {}\n{}\n{}", said.code, said.out, said.err);
    let error = said.err.rsplit_once("error: ").map_or("", |(_, error)| error);
    for word in words {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

#[test]
fn a_project_that_does_not_build() {
    let project = project("broken", &FLOW.replace("cx.random()", "cx.randomness()"));
    let said = project.check(&[]);
    refuses(&said, &["does not build"]);
    assert!(said.err.contains("randomness"), "{}", said.err);
}

#[test]
fn no_project_and_arguments_that_cargo_does_not_know() {
    let project = project("arguments", FLOW);
    let nowhere = Said::of(&project.command(&["--manifest-path", "no/Cargo.toml"]).output().unwrap());
    refuses(&nowhere, &["no/Cargo.toml"]);
    let said = project.check(&["--", "--package", "nobody"]);
    refuses(&said, &["does not build"]);
    assert!(said.err.contains("nobody"), "{}", said.err);
    assert_eq!(project.check(&["--nonsense"]).code, 2);
}

#[test]
fn nothing_that_has_a_workflow() {
    let project = project("helpers_only", "/// Adds.\npub fn add(a: u64, b: u64) -> u64 {\n    a + b\n}\n");
    refuses(&project.check(&[]), &["nothing that was built has a workflow", "--package"]);
}

#[test]
fn a_broken_file_of_allowances_is_told_before_anything_is_built() {
    let project = project("allowances", &FLOW.replace("cx.random()", "cx.never_compiled()"));
    for (text, words) in [
        ("[[check.allow]]\npath = \"a\"\n", ["aether.toml", "reason"]),
        (
            "[[check.allow]]\npath = \"a\"\nkind = \"time\"\nreason = \"r\"\n",
            ["aether.toml", "`time` is no kind"],
        ),
        ("[[check.allow]\n", ["aether.toml", "line 1"]),
    ] {
        project.write("aether.toml", text);
        refuses(&project.check(&[]), &words);
    }
}

#[test]
fn a_baseline_that_is_none() {
    let project = project("no_baseline", FLOW);
    refuses(&project.check(&["--baseline", "missing.txt"]), &["missing.txt", "cannot be read"]);
    project.write("damaged.txt", "# Known findings\nthis is no id\n");
    refuses(&project.check(&["--baseline", "damaged.txt"]), &["damaged.txt", "line 2"]);
}

#[test]
fn objects_without_names() {
    let project = project("stripped", FLOW);
    // A wrapper of the project that strips what the compiler wrote.
    let text = "\
#!/bin/sh
\"$@\" || exit
out=; name=; extra=
while [ $# -gt 0 ]; do
    case $1 in
    --out-dir) out=$2 ;;
    --crate-name) name=$2 ;;
    extra-filename=*) extra=${1#extra-filename=} ;;
    esac
    shift
done
[ \"$name\" = stripped ] && strip --strip-all \"$out/lib$name$extra.rlib\"
exit 0
";
    project.write("strip.sh", text);
    let wrapper = project.folder.join("strip.sh");
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = Said::of(&project.command(&[]).env("RUSTC_WRAPPER", &wrapper).output().unwrap());
    refuses(&said, &["stripped", "has code and no names"]);
}

#[test]
fn a_library_of_another_type() {
    let project = project("only_a_cdylib", FLOW);
    let manifest = project.folder.join("only_a_cdylib/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    project.write("only_a_cdylib/Cargo.toml", &(text + "\n[lib]\ncrate-type = [\"cdylib\"]\n"));
    refuses(&project.check(&[]), &["`only_a_cdylib` is built as cdylib alone", "crate type `lib`"]);
}

#[test]
fn output_that_nobody_reads_keeps_the_exit_code() {
    let project = project("unread", &FLOW.replace("cx.random().await", "cx.random().await + helper()"));
    let helper = "\nfn helper() -> u64 {\n    u64::from(std::process::id())\n}\n";
    let text = FLOW.replace("cx.random().await", "cx.random().await + helper()") + helper;
    project.write("unread/src/lib.rs", &text);
    let mut check = project.command(&["--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(check.stdout.take());
    assert_eq!(check.wait().unwrap().code(), Some(1));
}
