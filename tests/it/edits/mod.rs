//! The corpus of edits: an agent with runs stopped after each of their appends, and seventy ways in which its code changes
//! before the next start.
//!
//! Each edit is a build of its own. Of every run, a check of that build must predict what its recovery does; no run may
//! fail because of an edit; no body that changes the world is called twice for one recorded intent; and a parked run that
//! is given back to the build that recorded it ends as if nothing had happened.
//!
//! Each takes a build, so a normal run tries some of them. `AETHER_EDITS=all cargo test --test it edits` tries all, and
//! `AETHER_EDITS=swap_charge` those of this name.

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use self::table::{EDITS, Edit};
use crate::built::{built, root, side_by_side};

const SOURCES: &str = "tests/it/edits";
/// Every so many edits in a normal run.
const STRIDE: usize = 3;

/// Where programs and stores are.
struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let shop = Self { folder: folder.unwrap() };
        // A dynamic library, so that the linker has little to do for each edit.
        let kit = ["--crate-name=edits_kit", "--crate-type=dylib", "-Cprefer-dynamic"];
        shop.compile(&root().join(SOURCES).join("kit.rs"), shop.folder.path(), &kit);
        shop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, source: &Path, folder: &Path, args: &[&str]) {
        let mut rustc = built().rustc();
        rustc.args(args).arg("--out-dir").arg(folder).arg("-L").arg(self.folder.path());
        // What cargo would set.
        rustc.env("CARGO_PKG_NAME", "agent");
        let output = rustc.arg(source).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} does not compile:\n{said}", source.display());
    }

    /// Builds the agent with this text, in a folder of its own. All builds are of one crate, so that the names of their
    /// modules are equal.
    fn build(&self, name: &str, text: &str) -> Program {
        let folder = self.path(&format!("{name}-build"));
        fs::create_dir(&folder).unwrap();
        let source = folder.join("agent.rs");
        fs::write(&source, text).unwrap();
        let agent = ["--crate-name=agent", "--extern=edits_kit", "-Cprefer-dynamic", "-Crpath"];
        self.compile(&source, &folder, &agent);
        Program(folder.join("agent"))
    }

    /// A copy of a store and of what its bodies wrote down.
    fn copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.path(name);
        fs::copy(from, &to).unwrap();
        fs::copy(calls_of(from), calls_of(&to)).unwrap();
        let workers = |path: &Path| PathBuf::from(format!("{}-workers", path.display()));
        fs::create_dir_all(workers(&to)).unwrap();
        for file in fs::read_dir(workers(from)).unwrap().flatten() {
            fs::copy(file.path(), workers(&to).join(file.file_name())).unwrap();
        }
        to
    }
}

fn calls_of(store: &Path) -> PathBuf {
    PathBuf::from(format!("{}.calls", store.display()))
}

/// A build of the agent.
struct Program(PathBuf);

impl Program {
    fn call(&self, command: &str, store: &Path) -> Value {
        let output =
            Command::new("timeout").arg("600").arg(&self.0).arg(command).arg(store).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {command}: {errors}", self.0.display());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The text of the agent after an edit.
fn edited(base: &str, edit: &Edit) -> String {
    edit.changes.iter().fold(base.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "`{}` changes one place: {from}", edit.name);
        text.replace(from, to)
    })
}

/// How runs end in the hands of one build.
type Ends = serde_json::Map<String, Value>;

fn ends(said: &Value) -> &Ends {
    said["ends"].as_object().unwrap()
}

#[test]
fn a_check_predicts_what_an_edit_does_and_no_edit_fails_a_run_or_repeats_a_call() {
    let base = fs::read_to_string(root().join(SOURCES).join("agent.rs")).unwrap();
    let shop = Workshop::new();
    let program = shop.build("base", &base);
    let left = shop.path("left.db");
    let stops = program.call("record", &left);
    eprintln!("stops: {stops}");
    let untouched = program.call("recover", &shop.copy(&left, "untouched.db"));
    let edits: Vec<&Edit> = match std::env::var("AETHER_EDITS").as_deref() {
        Ok("all") => EDITS.iter().collect(),
        Ok(part) => EDITS.iter().filter(|edit| edit.name.contains(part)).collect(),
        Err(_) => EDITS.iter().step_by(STRIDE).collect(),
    };
    assert!(!edits.is_empty(), "no edit has such a name");
    let trials = side_by_side(&edits, |edit| {
        let build = shop.build(edit.name, &edited(&base, edit));
        let store = shop.copy(&left, &format!("{}.db", edit.name));
        let judged = build.call("judge", &store);
        let calls = fs::read_to_string(calls_of(&store)).unwrap();
        let is_parked = ends(&judged).values().any(|end| end["end"] == "parked");
        let back = is_parked.then(|| program.call("recover", &store));
        fs::remove_file(&build.0).unwrap();
        let after = fs::read_to_string(calls_of(&store)).unwrap();
        faults(edit, &judged, ends(&untouched), back.as_ref(), [&calls, &after])
    });
    assert!(EDITS.len() >= 60, "{} edits", EDITS.len());
    let mut all = String::new();
    for (edit, (summary, faults)) in edits.iter().zip(trials) {
        eprintln!("{:<28} {summary}", edit.name);
        for fault in faults {
            let _writing_to_a_string = writeln!(all, "{}: {fault}", edit.name);
        }
    }
    assert!(all.is_empty(), "{all}");
}

/// What an edit did that it must not do; and a line for people.
fn faults(
    edit: &Edit,
    judged: &Value,
    untouched: &Ends,
    back: Option<&Value>,
    calls: [&str; 2],
) -> (String, Vec<String>) {
    let checked = judged["checked"].as_object().unwrap();
    let (mut faults, mut verdicts) = (Vec::new(), BTreeMap::<String, usize>::new());
    for (run, check) in checked {
        let (verdict, end) = (check["verdict"].as_str().unwrap(), &ends(judged)[run]);
        *verdicts.entry(verdict.to_owned()).or_default() += 1;
        let happened = end["end"].as_str().unwrap();
        // A run that waits for a child that is parked.
        let child = format!("{run}/");
        let is_parked_child = |(id, end): (&String, &Value)| id.starts_with(&child) && end["end"] == "parked";
        let waits_for_parked = ends(judged).iter().any(is_parked_child);
        let as_predicted = match verdict {
            "fits" | "adopts" => end["result"] != Value::Null && (happened != "open" || waits_for_parked),
            "parks" => happened == "parked",
            _ => false,
        };
        if !as_predicted {
            faults.push(format!("`{run}`: the check says {check}, and it is {end}"));
        }
        if happened == "failed" && untouched[run]["end"] != "failed" {
            faults.push(format!("`{run}` failed: {end}"));
        }
        let is_kept = happened == "parked" || waits_for_parked;
        let returned = back.filter(|_| is_kept).map(|back| &ends(back)[run]);
        if returned.is_some_and(|returned| *returned != untouched[run]) {
            faults.push(format!("`{run}`, given back, is {:?}, and not {}", returned, untouched[run]));
        }
    }
    for calls in calls {
        faults.extend(repeated(calls, edit.repeats));
    }
    faults.truncate(8);
    (format!("{verdicts:?}"), faults)
}

/// Calls that were made twice for one intent, or, unless the edit asks for it, twice with the same arguments in one run.
fn repeated(calls: &str, may_repeat: bool) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut twice = Vec::new();
    for line in calls.lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        let key = call["key"].as_str().unwrap();
        // `aether:<run>:<place>:<step>:<attempt>`; no run here has a colon in its name.
        let run = key.split(':').nth(1).unwrap();
        let same = format!("{run} {} {}", call["step"], call["args"]);
        if !seen.insert(key.to_owned()) || !(seen.insert(same) || may_repeat) {
            twice.push(format!("called twice: {line}"));
        }
    }
    twice
}
