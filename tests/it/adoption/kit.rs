//! Edits of one program, compiled once, and their processes: each is told what to do on its standard input.
//!
//! Promise: a process that a test leaves behind is killed. Calls of bodies are counted in a file of their own, which no
//! store has part in.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use aether_pg_tests::Database;

use crate::built::{built, root, side_by_side};
use crate::postgres::way::{Way, block_on};

/// The edits: name, what is replaced, and by what.
const EDITS: [(&str, &str, &str); 7] = [
    ("base", "", ""),
    ("read_before_question", "// before the question", "let _ = rate(cx, claim).await;"),
    ("read_before_consent", "// before the consent", "let _ = rate(cx, number).await?;"),
    ("later", "pay(cx, number).await?", "{ let _ = rate(cx, number).await?; pay(cx, number).await? }"),
    ("renamed", "async fn claim(", "async fn claim_of_money("),
    (
        "impatient",
        "cx.sleep(month).await;\n                false",
        "let _ = (cx, month);\n                false",
    ),
    (
        "other_input",
        "async fn claim(cx: &mut Cx, number: u32)",
        "async fn claim(cx: &mut Cx, number: u32, _name: String)",
    ),
];

struct Builds {
    folder: tempfile::TempDir,
    programs: BTreeMap<&'static str, PathBuf>,
}

fn builds() -> &'static Builds {
    static BUILDS: OnceLock<Builds> = OnceLock::new();
    BUILDS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let programs =
            side_by_side(&EDITS, |(name, from, to)| (*name, compile(folder.path(), name, from, to)));
        Builds { programs: programs.into_iter().collect(), folder }
    })
}

fn compile(folder: &Path, name: &str, from: &str, to: &str) -> PathBuf {
    let agent = std::fs::read_to_string(root().join("tests/it/adoption/agent.rs")).unwrap();
    assert!(agent.contains(from), "{name} edits nothing");
    let mut text = if from.is_empty() { agent } else { agent.replace(from, to) };
    if name == "renamed" {
        text = text
            .replace("RunHandle<claim>", "RunHandle<claim_of_money>")
            .replace("::<claim>", "::<claim_of_money>");
    }
    if name == "other_input" {
        text = text.replace("::<claim>(number)", "::<claim>((number, String::new()))");
    }
    // Of one name, as one file that is edited has: it is the module of the workflows.
    let (place, program) = (folder.join(name), folder.join(name).join("agent"));
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("agent.rs"), text).unwrap();
    let mut rustc = built().rustc();
    let done =
        rustc.arg("--crate-name=agent").arg("-o").arg(&program).arg(place.join("agent.rs")).output().unwrap();
    assert!(done.status.success(), "{name} does not compile: {}", String::from_utf8_lossy(&done.stderr));
    program
}

/// Where runs are kept, and the file in which bodies note their calls.
pub(super) struct Home {
    /// A path or a URL.
    address: String,
    /// How `AETHER_STORE` names what is there.
    kind: &'static str,
    calls: PathBuf,
    _database: Option<Database<'static>>,
}

impl Home {
    /// A SQLite file of this name.
    pub(super) fn file(name: &str) -> Self {
        let address = files().join(name).display().to_string();
        Self { calls: format!("{address}.calls").into(), address, kind: "sqlite", _database: None }
    }

    /// A database of its own, reached in this way.
    pub(super) fn on(way: Way) -> Self {
        let database = block_on(way.database());
        let calls = files().join(format!("{}.calls", database.name()));
        Self { address: way.url(&database), kind: way.name(), calls, _database: Some(database) }
    }

    /// How `AETHER_STORE` names it.
    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }

    /// How many bodies of this name were called.
    pub(super) fn calls(&self, what: &str) -> usize {
        self.called(what).len()
    }

    /// The claims that bodies of this name were called for, in the order of the calls, and the process of each.
    pub(super) fn called(&self, what: &str) -> Vec<(u32, u32)> {
        let text = std::fs::read_to_string(&self.calls).unwrap_or_default();
        let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let lines = lines.filter(|words| words[0] == what);
        lines.map(|words| (words[1].parse().unwrap(), words[2].parse().unwrap())).collect()
    }
}

fn files() -> PathBuf {
    let folder = builds().folder.path().join("files");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A program that runs.
pub(super) struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    pub(super) output: Receiver<String>,
    pub(super) greeting: String,
}

impl Agent {
    pub(super) fn start(build: &str, home: &Home) -> Self {
        Self::with(build, home, "")
    }

    pub(super) fn with(build: &str, home: &Home, choice: &str) -> Self {
        let mut command = Command::new(&builds().programs[build]);
        command.env("AETHER_STORE", home.kind).env("AGENT_CALLS", &home.calls);
        command.arg(&home.address).arg(choice).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, output) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let input = child.stdin.take();
        let mut agent = Self { child, input, output, greeting: String::new() };
        agent.greeting = agent.line();
        agent
    }

    fn line(&self) -> String {
        self.output.recv_timeout(Duration::from_secs(300)).expect("the program says nothing")
    }

    pub(super) fn ask(&mut self, command: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
        self.line()
    }

    /// Asks until the answer is `wanted`; how long that took.
    pub(super) fn until(&mut self, command: &str, wanted: &str) -> Duration {
        let began = Instant::now();
        loop {
            let answer = self.ask(command);
            if answer == wanted {
                return began.elapsed();
            }
            assert!(began.elapsed() < Duration::from_secs(300), "{command}: {answer}, and not {wanted}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The end of its input ends it, after a shutdown.
    pub(super) fn stop(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _it_is_reaped = self.child.wait();
    }
}

/// One run that waits for a person, recorded by the base build, which was killed.
pub(super) fn one_waiting(home: Home) -> Home {
    let mut base = Agent::start("base", &home);
    assert_eq!(base.ask("start 7"), "claim-7");
    base.until("status claim-7", "waiting");
    base.kill();
    home
}

/// Whether claim 7 was paid.
pub(super) fn is_paid(end: &str) -> bool {
    end.starts_with("Completed(") && end.contains("paid 7")
}
