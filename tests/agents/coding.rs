//! The coding example is killed at its appends: one commit, and the same result.
//!
//! In a normal test run some of the points are tried; `AETHER_SWEEP=full` tries every append in turn.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::example;

/// Every so many appends in a normal run.
const STRIDE: usize = 10;
/// Points that are tried at the same time: each mostly waits for servers to start, and for a dead process's lease.
const LANES: usize = 2;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn repo(&self) -> PathBuf {
        self.0.path().join("repo")
    }

    /// Runs the example, which dies at a point if one is given.
    fn run(&self, crash: &[&str]) -> Output {
        let mut command = Command::new(example("coding"));
        command.arg("--repo").arg(self.repo()).arg("--db").arg(self.0.path().join("run.db")).arg("--yes");
        command.args(crash).env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL");
        // The servers of these tests are those that are installed for them.
        command.env_remove("AETHER_MCP_FILESYSTEM").env_remove("AETHER_MCP_GIT");
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn git(&self, args: &[&str]) -> String {
        let done = Command::new("git").arg("-C").arg(self.repo()).args(args).output().unwrap();
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// What is left: commits, the last message, files that are not committed, the patched file, and the result.
    fn left(&self, said: &Output) -> (String, String, String, String, String) {
        let result = String::from_utf8_lossy(&said.stdout).lines().last().unwrap_or_default().to_owned();
        let patched = std::fs::read_to_string(self.repo().join("calc.py")).unwrap_or_default();
        let git = |args: &[&str]| self.git(args);
        (
            git(&["rev-list", "--count", "HEAD"]),
            git(&["log", "-1", "--format=%s"]),
            git(&["status", "--short"]),
            patched,
            result,
        )
    }
}

fn servers_are_there() {
    let test = std::env::current_exe().unwrap();
    let installed: &Path = &test.ancestors().nth(3).unwrap().join("mcp-servers/installed");
    assert!(
        installed.exists(),
        "{} is missing: run scripts/mcp-servers, which installs it",
        installed.display()
    );
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_patch_is_committed_once_wherever_the_process_dies() {
    servers_are_there();
    let whole = Place::new();
    let said = whole.run(&[]);
    assert!(said.status.success(), "{}", shown(&said));
    let expected = whole.left(&said);
    assert_eq!((expected.0.as_str(), expected.2.as_str()), ("2", ""), "{}", shown(&said));
    assert_eq!(expected.4, "mean([]) is 0 now. The tests pass, and the patch is committed.");
    assert!(expected.3.contains("if not numbers") && !expected.3.contains("TODO"));
    let stride = if std::env::var("AETHER_SWEEP").as_deref() == Ok("full") { 1 } else { STRIDE };
    let next = std::sync::atomic::AtomicUsize::new(0);
    let ended = std::sync::atomic::AtomicBool::new(false);
    let deaths = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while !ended.load(std::sync::atomic::Ordering::SeqCst) {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    let write = (1 + number * stride).to_string();
                    for flag in ["--crash-at", "--crash-after"] {
                        let place = Place::new();
                        let died = place.run(&[flag, &write]);
                        if died.status.success() {
                            // It has fewer appends.
                            ended.store(true, std::sync::atomic::Ordering::SeqCst);
                        } else {
                            deaths.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        }
                        let said = place.run(&[]);
                        let all = format!("{flag} {write}:\n{}{}", shown(&died), shown(&said));
                        assert!(said.status.success(), "{all}");
                        assert_eq!(place.left(&said), expected, "{all}");
                    }
                }
            });
        }
    });
    // How many appends it has depends on what was done at the same time and shares one: 21 are in every run.
    let deaths = deaths.into_inner();
    println!("died {deaths} times");
    assert!(deaths >= 2 * (1 + 20 / stride), "died {deaths} times, {stride} appends apart");
}
