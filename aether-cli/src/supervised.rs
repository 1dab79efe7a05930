//! A program that is started, ended and started again.
//!
//! Promise: it is asked to end before it is killed, so that what it does may finish; it does not outlive whoever dropped
//! this. All that holds for what it has started as well, unless that left its process group.

use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long what it has started may take to end after it.
const PATIENCE_WITH_THE_REST: Duration = Duration::from_secs(3);
/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// What is started, and where.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Its working directory.
    pub(crate) folder: PathBuf,
    /// What it finds in `AETHER_DB`.
    pub(crate) db: String,
}

/// A program that runs, or has ended.
#[derive(Debug)]
pub(crate) struct Supervised {
    launch: Launch,
    running: Option<Child>,
    /// The program and what it has started, as long as any of these runs: after that the number may be another group's.
    group: Option<Pid>,
}

impl Supervised {
    pub(crate) fn new(launch: Launch) -> Self {
        Self { launch, running: None, group: None }
    }

    /// Starts it.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        let Launch { command, folder, db } = &self.launch;
        let Some((program, args)) = command.split_first() else { return Ok(()) };
        let mut command = Command::new(program);
        command.args(args).current_dir(folder).env("AETHER_DB", db).process_group(0);
        if io::stdin().is_terminal() {
            // The terminal stops a group in the background that reads from it.
            command.stdin(Stdio::null());
        }
        let child = command.spawn()?;
        self.group = Some(Pid::from_child(&child));
        self.running = Some(child);
        Ok(())
    }

    /// How it has ended since it was asked last, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.running.as_mut().and_then(|child| child.try_wait().ok().flatten());
        if status.is_some() {
            self.running = None;
        }
        self.is_gone();
        status
    }

    /// Asks it to end, and kills it where it does not.
    pub(crate) async fn stop(&mut self) {
        self.signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE && self.running.is_some() && self.ended().is_none() {
            tokio::time::sleep(LOOK).await;
        }
        let ended = Instant::now();
        while ended.elapsed() < PATIENCE_WITH_THE_REST && !self.is_gone() {
            tokio::time::sleep(LOOK).await;
        }
        self.end();
    }

    /// Whether neither it runs nor anything that it has started.
    fn is_gone(&mut self) -> bool {
        if self.running.is_none()
            && self.group.is_some_and(|group| test_kill_process_group(group) == Err(Errno::SRCH))
        {
            self.group = None;
        }
        self.group.is_none()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _has_ended = kill_process_group(group, signal);
        }
    }

    fn end(&mut self) {
        self.signal(Signal::KILL);
        if let Some(mut child) = self.running.take() {
            let _reaped = child.wait();
        }
        self.group = None;
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that starts another one; `then` is what it does next.
    fn launched(folder: &tempfile::TempDir, then: &str) -> Supervised {
        let script = format!("sleep 1000 & echo $! > started.new; mv started.new started; {then}");
        let command = vec!["sh".into(), "-c".into(), script];
        let mut program =
            Supervised::new(Launch { command, folder: folder.path().into(), db: "agent.db".into() });
        program.start().unwrap();
        program
    }

    /// The process that the program has started.
    async fn started(folder: &tempfile::TempDir) -> Pid {
        loop {
            if let Ok(text) = std::fs::read_to_string(folder.path().join("started")) {
                return Pid::from_raw(text.trim().parse().unwrap()).unwrap();
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether a process runs; one that nobody has reaped does not.
    fn runs(process: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
    }

    async fn until_gone(process: Pid) {
        while runs(process) {
            tokio::time::sleep(LOOK).await;
        }
    }

    #[tokio::test]
    async fn what_the_program_has_started_ends_with_it_however_it_ends() {
        for then in ["wait", "true"] {
            let folder = tempfile::tempdir().unwrap();
            let mut program = launched(&folder, then);
            let process = started(&folder).await;
            while then == "true" && program.ended().is_none() {
                tokio::time::sleep(LOOK).await;
            }
            assert!(runs(process), "{then}");
            program.stop().await;
            until_gone(process).await;
            assert!(program.is_gone(), "{then}");
        }
        let folder = tempfile::tempdir().unwrap();
        let program = launched(&folder, "wait");
        let process = started(&folder).await;
        drop(program);
        until_gone(process).await;
    }
}
