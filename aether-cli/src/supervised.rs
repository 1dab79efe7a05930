//! A program that is started, ended and started again.
//!
//! Promise: it is asked to end before it is killed, so that what it does may finish; it does not outlive whoever dropped
//! this.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(15);
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
}

impl Supervised {
    pub(crate) fn new(launch: Launch) -> Self {
        Self { launch, running: None }
    }

    /// Starts it.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        let Launch { command, folder, db } = &self.launch;
        let Some((program, args)) = command.split_first() else { return Ok(()) };
        let child = Command::new(program).args(args).current_dir(folder).env("AETHER_DB", db).spawn();
        self.running = Some(child?);
        Ok(())
    }

    /// How it has ended since it was asked last, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.running.as_mut()?.try_wait().ok().flatten()?;
        self.running = None;
        Some(status)
    }

    /// Asks it to end, and kills it where it does not.
    pub(crate) async fn stop(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        let asked = Instant::now();
        ask(&child);
        while asked.elapsed() < PATIENCE {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
        end(&mut child);
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            ask(child);
            end(child);
        }
    }
}

fn ask(child: &Child) {
    let _has_ended = kill_process(Pid::from_child(child), Signal::TERM);
}

fn end(child: &mut Child) {
    let _has_ended = child.kill();
    let _reaped = child.wait();
}
