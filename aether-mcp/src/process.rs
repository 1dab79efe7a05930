//! Child processes of servers: what they inherit, and how they end.
//!
//! Promise: a child gets none of the program's environment but a short list; it is ended and reaped, with the processes
//! that it started in its group, when its connection is dropped.

use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::server::Program;

/// What a child inherits of the environment.
const INHERITED: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/// How long a child may take to end after its input was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A child process, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    _stop: oneshot::Sender<()>,
    end: JoinHandle<()>,
}

impl Process {
    /// Starts `program` for the server `name`. Also returns what is read from it and what is written to it.
    pub(crate) fn start(name: &str, program: &Program) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut command = Command::new(&program.command);
        command.args(&program.args).env_clear().process_group(0).kill_on_drop(true);
        command.envs(INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(program.env.iter().map(|(name, value)| (name, value.expose())));
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(stdout), Some(stdin), Some(stderr)) = pipes else {
            return Err(io::Error::other("the child process has no pipes"));
        };
        tokio::spawn(log(name.to_owned(), stderr));
        let (stop, stopped) = oneshot::channel();
        let end = tokio::spawn(Running::new(child).until(stopped));
        Ok((Self { _stop: stop, end }, stdout, stdin))
    }

    /// Ends the child and waits until it is gone.
    pub(crate) async fn stop(self) {
        drop(self._stop);
        let _ended = self.end.await;
    }
}

/// A child that was not reaped yet, and its group.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Running {
    fn new(child: Child) -> Self {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { child, group }
    }

    /// Waits for the end of the child, or for a word to end it: its input is closed then.
    async fn until(mut self, stopped: oneshot::Receiver<()>) {
        tokio::select! {
            _ = self.child.wait() => return,
            _ = stopped => {}
        }
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _in_time = timeout(GRACE, self.child.wait()).await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may be gone by now.
            let _gone = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    /// Also reached when the runtime shuts down. `kill_on_drop` reaps the child.
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reads what a child writes to its standard error, so that it never blocks, and logs it.
async fn log(server: String, mut stderr: ChildStderr) {
    let mut bytes = [0; 4 << 10];
    while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
        let text = String::from_utf8_lossy(&bytes[..read]);
        tracing::debug!(target: "aether::mcp", server, stderr = %text.trim_end());
    }
}

/// What a child writes, line by line; a line that is too long is an error, so that who waits for it need not wait for the end
/// of a timeout.
#[derive(Debug)]
pub(crate) struct BoundedLines<R> {
    lines: R,
    longest: usize,
    /// Bytes since the last line break.
    so_far: usize,
}

impl<R> BoundedLines<R> {
    pub(crate) fn new(lines: R, longest: usize) -> Self {
        Self { lines, longest, so_far: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.lines).poll_read(cx, buffer))?;
        for part in buffer.filled()[before..].split_inclusive(|byte| *byte == b'\n') {
            let ends = part.ends_with(b"\n");
            self.so_far = self.so_far.saturating_add(part.len() - usize::from(ends));
            if self.so_far > self.longest {
                let reason =
                    format!("a message is longer than {} bytes (`Server::max_message`)", self.longest);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
            }
            if ends {
                self.so_far = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}
