//! A clock two crates down: the chain to it, and every way to let it pass.

use super::project::{Project, Said, root};
use crate::for_builds::for_builds;

const DEEP: &str = "\
//! Stamps.

/// A stamp.
pub fn stamp() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
";

const MIDDLE: &str = "\
//! Labels.

/// A label.
pub fn label(order: u64) -> String {
    format!(\"{order}-{}\", DEEP::stamp())
}
";

const APP: &str = "\
use aether::prelude::*;

#[workflow]
async fn ship(cx: &mut Cx, order: u64) -> Result<String> {
    let salt = cx.random().await;
    let label = MIDDLE::label(order);
    Ok(format!(\"{label}{salt}\"))
}

fn main() {}
";

/// A program in three crates; the names are its own, because all are built in one folder.
struct Program {
    project: Project,
    name: String,
}

impl Program {
    fn new(name: &str) -> Self {
        let mut project = Project::new(name);
        let text = |text: &str| {
            text.replace("DEEP", &format!("{name}_deep")).replace("MIDDLE", &format!("{name}_middle"))
        };
        let (deep, middle) = (format!("{name}_deep"), format!("{name}_middle"));
        project.package(&deep, &[], "lib.rs", DEEP);
        project.package(&middle, &[&deep], "lib.rs", &text(MIDDLE));
        project.package(name, &[&middle], "main.rs", &text(APP));
        project.finish("");
        Self { project, name: name.to_owned() }
    }

    /// Puts `to` in the place of `from` in the source of one of its crates.
    fn edit(&self, krate: &str, from: &str, to: &str) {
        let file = if krate == self.name { "main.rs" } else { "lib.rs" };
        let path = format!("{krate}/src/{file}");
        let text = std::fs::read_to_string(self.project.folder.join(&path)).unwrap();
        assert!(text.contains(from), "{text}");
        self.project.write(&path, &text.replace(from, to));
    }

    fn deep(&self) -> String {
        format!("{}_deep", self.name)
    }

    fn check(&self, args: &[&str]) -> Said {
        self.project.check(args)
    }

    /// Demands that nothing is found, and returns what else was said.
    fn is_clean(&self, args: &[&str]) -> String {
        let said = self.check(args);
        assert!(said.code == 0 && said.out.is_empty(), "code {}\n{}\n{}", said.code, said.out, said.err);
        said.err
    }
}

#[test]
fn the_whole_chain_is_told() {
    let program = Program::new("chain");
    let said = program.check(&[]);
    let wanted = "\
error[AE0101]: workflow `chain::ship` reaches `std::time::SystemTime::now`, which a replay does not repeat
  --> chain/src/main.rs:6  in `chain::ship`
    > chain_middle/src/lib.rs:5  in `chain_middle::label`
    > chain_deep/src/lib.rs:5  in `chain_deep::stamp`
  = help: use `cx.now().await`

";
    assert_eq!((said.code, said.out.as_str()), (1, wanted), "{}", said.err);

    let said = program.check(&["--json"]);
    let findings = said.findings();
    assert_eq!((said.code, findings.len()), (1, 1), "{}", said.out);
    let found = &findings[0];
    assert_eq!(
        (found.code.as_str(), found.kind.as_str(), found.level.as_str()),
        ("AE0101", "clock", "error")
    );
    assert_eq!(
        (found.workflow.as_str(), found.source.as_str()),
        ("chain::ship", "std::time::SystemTime::now")
    );
    assert!(found.chain.iter().all(|frame| frame.local) && found.chain.len() == 3, "{found:?}");
    assert!(found.id.len() == 16, "{found:?}");

    let schema = Said::of(&program.project.program().arg("schema").output().unwrap());
    let schema = serde_json::from_str(&schema.out).unwrap();
    let line = serde_json::from_str(said.out.lines().next().unwrap()).unwrap();
    jsonschema::validate(&schema, &line).unwrap();

    program.edit(&program.deep(), "std::time::SystemTime::now()", "std::time::UNIX_EPOCH");
    assert!(program.is_clean(&[]).contains("1 workflows and pure steps, 0 findings"));
}

#[test]
fn a_workflow_allows_a_kind_with_a_reason() {
    let program = Program::new("attribute");
    program.edit("attribute", "#[workflow]", "#[workflow(allow(clock, reason = \"only printed\"))]");
    let said = program.is_clean(&[]);
    assert!(!said.contains("warning"), "{said}");

    program.edit("attribute", "allow(clock,", "allow(clock, env,");
    let said = program.is_clean(&[]);
    assert!(said.contains("warning: workflow `attribute::ship` allows `env`"), "{said}");
}

#[test]
fn a_helper_is_called_deterministic_with_a_reason() {
    let program = Program::new("helper");
    let deep = program.deep();
    let marked = "#[aether::deterministic(reason = \"the stamp is never compared\")]\npub fn stamp";
    program.edit(&deep, "pub fn stamp", marked);
    let said = program.is_clean(&[]);
    assert!(!said.contains("warning"), "{said}");

    program.edit(&deep, "std::time::SystemTime::now()", "std::time::UNIX_EPOCH");
    let said = program.is_clean(&[]);
    assert!(said.contains("warning: `helper_deep::stamp` is called deterministic"), "{said}");
}

#[test]
fn a_file_lets_a_path_pass_for_a_kind() {
    let program = Program::new("allowed");
    let entry = |path: &str, kind: &str| {
        format!(
            "[[check.allow]]\npath = {path:?}\nkind = {kind:?}\nreason = \"measured, and never recorded\"\n"
        )
    };
    program.project.write("aether.toml", &entry("allowed_deep", "clock"));
    let said = program.is_clean(&[]);
    assert!(!said.contains("warning"), "{said}");

    program.project.write("aether.toml", &entry("allowed_deep", "env"));
    let said = program.check(&[]);
    assert_eq!(said.code, 1, "{}", said.err);
    program
        .project
        .write("aether.toml", &(entry("allowed_deep", "clock") + &entry("somewhere::else", "clock")));
    let said = program.is_clean(&[]);
    assert!(said.contains("at `somewhere::else` for `clock`: remove the entry"), "{said}");
}

#[test]
fn known_findings_are_not_told_again_and_new_ones_are() {
    let program = Program::new("known");
    let baseline = program.project.folder.join("known.txt");
    let baseline = baseline.to_str().unwrap();
    let said = program.check(&["--baseline", baseline, "--write-baseline"]);
    assert_eq!(said.code, 0, "{}", said.err);
    program.is_clean(&["--baseline", baseline]);

    // An edit above it changes lines, and not what it is.
    program.edit(&program.deep(), "//! Stamps.", "//! Stamps.\n//!\n//! Of orders.");
    program.is_clean(&["--baseline", baseline]);

    program.edit("known_middle", "    format!", "    let _home = std::env::home_dir();\n    format!");
    let said = program.check(&["--baseline", baseline, "--json"]);
    let kinds: Vec<String> = said.findings().into_iter().map(|found| found.kind).collect();
    assert_eq!((said.code, kinds), (1, vec!["env".to_owned()]), "{}", said.err);

    program.edit("known_middle", "    let _home = std::env::home_dir();\n", "");
    program.edit(&program.deep(), "std::time::SystemTime::now()", "std::time::UNIX_EPOCH");
    assert!(program.is_clean(&["--baseline", baseline]).contains("is found no more"));
}

#[test]
fn whatever_a_profile_says_the_chain_is_the_same() {
    let program = Program::new("profiles");
    let profile = |name: &str, text: &str| format!("\n[profile.dev.package.{name}]\n{text}\n");
    let optimized = "opt-level = 3\ndebug = false\ncodegen-units = 16\nstrip = true";
    let whole = "debug = \"full\"\nopt-level = \"s\"";
    let more = profile("profiles", optimized)
        + &profile(&program.deep(), optimized)
        + &profile("profiles_middle", whole);
    program.project.finish(&more);
    let said = program.check(&["--json"]);
    let findings = said.findings();
    let lines: Vec<_> =
        findings.iter().flat_map(|found| found.chain.iter().map(|frame| frame.line)).collect();
    assert_eq!((said.code, lines), (1, vec![Some(6), Some(5), Some(5)]), "{}\n{}", said.out, said.err);
}

#[test]
fn flags_wrappers_and_configuration_of_the_project_stay() {
    let program = Program::new("settings");
    let deep = program.deep();
    // Without any one of the three, the crate does not compile.
    let wanted = "#[cfg(not(all(by_wrapper, by_workspace_wrapper)))]\ncompile_error!(\"settings are lost\");\n\n/// A stamp.";
    program.edit(&deep, "/// A stamp.", wanted);
    let wrapper = |name: &str, flag: &str| {
        let text = format!("#!/bin/sh\nexec \"$@\" --cfg {flag} --check-cfg 'cfg({flag})'\n");
        program.project.write(name, &text);
        let path = program.project.folder.join(name);
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, all).unwrap();
        path
    };
    let (every, members) = (wrapper("every.sh", "by_wrapper"), wrapper("members.sh", "by_workspace_wrapper"));
    let config = format!("[build]\nrustc-workspace-wrapper = {members:?}\n");
    program.project.write(".cargo/config.toml", &config);
    let said = Said::of(&program.project.command(&[]).env("RUSTC_WRAPPER", &every).output().unwrap());
    assert!(said.code == 1 && said.out.contains("settings_deep::stamp"), "{}\n{}", said.out, said.err);
}

#[test]
fn a_project_is_found_from_a_folder_in_it_and_by_its_manifest() {
    let program = Program::new("elsewhere");
    let manifest = program.project.folder.join("Cargo.toml");
    let manifest = manifest.to_str().unwrap();
    let said = Said::of(
        &program
            .project
            .command(&["--manifest-path", manifest])
            .current_dir(root().parent().unwrap())
            .output()
            .unwrap(),
    );
    assert!(said.code == 1 && said.out.contains("elsewhere_deep/src/lib.rs:5"), "{}\n{}", said.out, said.err);
    let inside = program.project.folder.join("elsewhere_deep/src");
    let said =
        Said::of(&program.project.command(&["--", "--workspace"]).current_dir(inside).output().unwrap());
    assert_eq!(said.code, 1, "{}", said.err);
}

/// What `aether check-code` exits with in a project, where `cargo-aether` is in a folder of `PATH` or is not.
fn check_code_exits(project: &Project, is_installed: bool, args: &str, exit: &str) -> String {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_cargo-aether")).parent().unwrap();
    let folders = std::env::var_os("PATH").unwrap();
    let folders = std::env::split_paths(&folders).filter(|folder| !folder.join("cargo-aether").exists());
    let folders = is_installed.then(|| program.to_owned()).into_iter().chain(folders);
    // The command line looks at the environment of its process, so it gets one of its own: this test, as that process.
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.current_dir(&project.folder);
    child.args(["--exact", "planted::the_command_line_calls_it", "--nocapture"]);
    child.env("PATH", std::env::join_paths(folders).unwrap()).env(EXITS, exit).env(ARGS, args);
    for_builds(&mut child);
    let said = Said::of(&child.output().unwrap());
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.err);
    said.out + &said.err
}

const EXITS: &str = "AETHER_TEST_EXITS";
const ARGS: &str = "AETHER_TEST_ARGS";

#[test]
fn the_command_line_calls_it() {
    if let (Ok(exit), Ok(args)) = (std::env::var(EXITS), std::env::var(ARGS)) {
        let args = ["aether", "check-code"].into_iter().chain(args.split(' ')).map(Into::into);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let code = runtime.block_on(aether_cli::standalone(args));
        let wanted = std::process::ExitCode::from(exit.parse::<u8>().unwrap());
        assert_eq!(format!("{code:?}"), format!("{wanted:?}"));
        return;
    }
    let program = Program::new("called");
    let folder = format!("--target-dir {}", super::project::target().display());
    let said = check_code_exits(&program.project, true, &folder, "6");
    assert!(said.contains("called_deep/src/lib.rs:5"), "{said}");
    program.edit(&program.deep(), "std::time::SystemTime::now()", "std::time::UNIX_EPOCH");
    check_code_exits(&program.project, true, &folder, "0");
    let said = check_code_exits(&program.project, true, "--manifest-path no/Cargo.toml", "1");
    assert!(said.contains("no/Cargo.toml"), "{said}");
    let said = check_code_exits(&program.project, false, &folder, "3");
    assert!(said.contains("cargo install --path cargo-aether"), "{said}");
}

const AUDITED: &str = "\
//! A line of the log that is a text, too.

pub use tracing;

/// Logs a text, and gives it.
#[macro_export]
macro_rules! audited {
    ($($part:tt)*) => {{
        let text = format!($($part)*);
        $crate::tracing::info!(\"{text}\");
        text
    }};
}
";

const AUDITS: &str = "\
use std::collections::HashMap;

use aether::prelude::*;

fn logged(prices: &HashMap<u64, u64>) {
    audited_macros::tracing::info!(all = %format!(\"{prices:?}\"), \"{prices:?}\");
}

fn told(price: u64) -> String {
    let prices = HashMap::from([(1, price), (2, 3)]);
    logged(&prices);
    audited_macros::audited!(\"{prices:?}\")
}

#[workflow]
async fn audit(cx: &mut Cx) -> Result<String> {
    Ok(told(cx.random().await))
}

fn main() {}
";

#[test]
fn a_text_that_a_macro_makes_beside_a_line_of_the_log_is_told() {
    let mut project = Project::new("audited");
    project.package("audited_macros", &[], "lib.rs", AUDITED);
    project.package("audited", &["audited_macros"], "main.rs", AUDITS);
    project.finish("");
    let said = project.check(&["--json"]);
    let findings = said.findings();
    let places: Vec<_> = findings
        .iter()
        .map(|found| (found.kind.as_str(), found.chain.last().map(|frame| frame.function.as_str())))
        .collect();
    assert_eq!(places, [("hash", Some("audited::told"))], "{}", said.err);
}
