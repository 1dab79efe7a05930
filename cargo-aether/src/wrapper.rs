//! The wrapper of the compiler: what it adds so that functions can be told apart in object files.
//!
//! Promise: the project's own flags, wrappers and configuration stay as they are; whatever a profile says of optimization,
//! debug information and stripping, object files are alike. Build scripts and procedural macros are left alone.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::config;

/// Set for the processes of the build.
pub(crate) const WRAPS: &str = "AETHER_CHECK_WRAPS";
/// The wrapper that the project had: `RUSTC_WRAPPER` and `RUSTC_WORKSPACE_WRAPPER`.
pub(crate) const FORMER: [(&str, &str); 2] = [
    ("RUSTC_WRAPPER", "AETHER_CHECK_WRAPPER"),
    ("RUSTC_WORKSPACE_WRAPPER", "AETHER_CHECK_WORKSPACE_WRAPPER"),
];

/// What every crate gets. The last of several values counts.
pub(crate) const EVERY: [&str; 7] = [
    // The former names leave type arguments out, and so hashers.
    "-Csymbol-mangling-version=v0",
    // What is inlined is named by nobody.
    "-Copt-level=0",
    "-Cdebuginfo=line-tables-only",
    "-Csplit-debuginfo=off",
    "-Cstrip=none",
    "-Clto=off",
    "-Clinker-plugin-lto=no",
];

/// Runs the compiler as cargo asked, with what is added. `args` begin with this program.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let this = std::env::current_exe().unwrap_or_default();
    let mut rest = args.get(1..).unwrap_or_default();
    // Of members of the workspace cargo calls one wrapper, and that the other one.
    let is_member = rest.first().is_some_and(|first| Path::new(first) == this);
    if is_member {
        rest = &rest[1..];
    }
    let mut command: Vec<OsString> = Vec::new();
    for (number, (_, former)) in FORMER.iter().enumerate() {
        let applies = number == 0 || is_member;
        command.extend(std::env::var_os(former).filter(|wrapper| applies && !wrapper.is_empty()));
    }
    command.extend(rest.iter().cloned());
    command.extend(added(rest, is_member).into_iter().map(OsString::from));
    let Some((program, args)) = command.split_first() else { return ExitCode::from(101) };
    match Command::new(program).args(args).status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(101)),
        Err(error) => {
            eprintln!("error: {} cannot be started: {error}", program.display());
            ExitCode::from(101)
        }
    }
}

/// What is added to a call of the compiler.
fn added(args: &[OsString], is_member: bool) -> Vec<&'static str> {
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let values = |option: &'static str| {
        let apart = args.windows(2).filter(move |pair| pair[0] == option).map(|pair| pair[1]);
        let joined = args.iter().filter_map(move |arg| arg.strip_prefix(option)?.strip_prefix('='));
        apart.chain(joined)
    };
    // Questions to the compiler are answered as they are.
    let name = values("--crate-name").next().filter(|name| *name != "___");
    let is_left_alone = values("--crate-type").any(|kind| kind == "proc-macro")
        || name.is_some_and(|name| name.starts_with("build_script_"));
    if name.is_none() || is_left_alone || args.contains(&"--print") {
        return Vec::new();
    }
    let mut added = EVERY.to_vec();
    if is_member {
        added.push("--emit=mir");
        let is_library = values("--crate-type").any(|kind| kind == "lib" || kind == "rlib");
        if !is_library || args.contains(&"--test") {
            // Its object is kept, as one file.
            added.extend(["--emit=obj", "-Ccodegen-units=1"]);
        }
    }
    added
}

/// Sets the wrappers of a build.
pub(crate) fn install(build: &mut Command, this: &OsStr) {
    build.env(WRAPS, "1");
    for (name, former) in FORMER {
        build.env(former, config::wrapper(name).unwrap_or_default()).env(name, this);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &str, is_member: bool) -> Vec<&'static str> {
        let args: Vec<OsString> = args.split_whitespace().map(OsString::from).collect();
        added(&args, is_member)
    }

    #[test]
    fn questions_scripts_and_macros_are_left_alone() {
        for args in [
            "rustc -vV",
            "rustc - --crate-name ___ --print=file-names",
            "rustc --crate-name build_script_build --crate-type bin",
            "rustc --crate-name serde_derive --crate-type proc-macro",
        ] {
            assert!(of(args, true).is_empty(), "{args}");
        }
    }

    #[test]
    fn programs_and_tests_of_the_workspace_keep_their_objects() {
        let keeps = |args: &str, is_member| of(args, is_member).contains(&"--emit=obj");
        assert!(keeps("rustc --crate-name app --crate-type bin", true));
        assert!(keeps("rustc --crate-name app --test", true));
        assert!(!keeps("rustc --crate-name app --crate-type lib", true));
        assert!(!keeps("rustc --crate-name serde --crate-type lib", false));
        assert!(of("rustc --crate-name serde --crate-type=lib", false).contains(&"-Copt-level=0"));
    }
}
