//! A file with runs, and the command line on it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::desk::{ARGS, MARK, STORE, this_test};

/// The program under test.
pub(crate) const AETHER: &str = env!("CARGO_BIN_EXE_aether");

/// A folder with a store in it.
pub(crate) struct Desk {
    pub(crate) folder: TempDir,
    pub(crate) db: PathBuf,
}

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            exit: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts how it ended.
    #[track_caller]
    pub(crate) fn exits(self, exit: i32) -> Self {
        assert_eq!(self.exit, exit, "{}\n{}", self.out, self.err);
        self
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("agent.db");
        Self { folder, db }
    }

    /// The program `aether` with these arguments, without what the environment says.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = bare();
        command.arg("--db").arg(&self.db).args(args);
        command
    }

    /// Runs `aether` on the store.
    pub(crate) fn cli(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// The command line of the program itself.
    pub(crate) fn own_command(&self, args: &[&str]) -> Command {
        let args: Vec<_> = [&["desk"], args].concat();
        let mut command = this_test("desk::is_a_command_line");
        command.env(STORE, &self.db).env(ARGS, serde_json::to_string(&args).unwrap());
        command.env_remove("NO_COLOR").env("AETHER_ACTOR", "ada").stdin(Stdio::null());
        command
    }

    /// Runs the command line of the program itself, which links the workflows.
    pub(crate) fn own(&self, args: &[&str]) -> Said {
        let mut said = Said::of(self.own_command(args).output().unwrap());
        said.out = said.out.split_once(&format!("{MARK}\n")).unwrap().1.to_owned();
        said
    }

    /// Runs a command of `aether` with `--json`, and holds what it prints against its schema.
    #[track_caller]
    pub(crate) fn json(&self, name: &str, args: &[&str]) -> Value {
        let said = self.cli(&with_json(name, args)).exits(0);
        valid(name, &said.out)
    }

    /// As [`Desk::json`], of the program itself.
    #[track_caller]
    pub(crate) fn own_json(&self, name: &str, args: &[&str]) -> Value {
        let said = self.own(&with_json(name, args)).exits(0);
        valid(name, &said.out)
    }
}

/// The program without arguments, and without what the environment says.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(AETHER);
    for name in ["AETHER_DB", "NO_COLOR", "VISUAL", "EDITOR"] {
        command.env_remove(name);
    }
    command.env("AETHER_ACTOR", "ada").env("TERM", "xterm").stdin(Stdio::null());
    command
}

fn with_json<'a>(name: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    name.split(' ').chain(args.iter().copied()).chain(["--json"]).collect()
}

/// Reads JSON, and asserts that it fits the schema of this name.
#[track_caller]
pub(crate) fn valid(name: &str, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let schema = schemas().get(name).unwrap_or_else(|| panic!("no schema is named {name}"));
    let errors: Vec<_> = jsonschema::validator_for(schema)
        .unwrap()
        .iter_errors(&value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{text}");
    value
}

/// All schemas, as `aether schema` prints them; with what they do not name forbidden.
pub(crate) fn schemas() -> &'static BTreeMap<String, Value> {
    static SCHEMAS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let said = Said::of(bare().arg("schema").output().unwrap()).exits(0);
        let mut schemas: BTreeMap<String, Value> = serde_json::from_str(&said.out).unwrap();
        schemas.values_mut().for_each(close);
        schemas
    })
}

/// A schema lets fields through that it does not name; a test must not.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.entry("additionalProperties").or_insert(Value::Bool(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Waits until something holds; not for ever, so that what never comes is a failure.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never held");
}
