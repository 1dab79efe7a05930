//! A process that ends a server and removes its folder when the test process is gone.
//!
//! Promise: it works also when the test process is killed (-9), because the kernel then closes its end of the pipe that the
//! guard reads from. Servers that are started again later are covered: the guard reads the server's pid file at the end.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::programs::User;

/// Waits for the end of its input, ends the server whose pid is the first line of the file `$2` with the signal `$3`,
/// waits until it has ended, and removes the folder `$1`.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
while read -r _; do :; done
if read -r pid <"$2" 2>/dev/null; then
    kill "-$3" "$pid" 2>/dev/null
    tries=0
    while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
    kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"
"#;

/// Ends the server when dropped, or when this process is gone.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Guards the server that keeps its pid in `pid_file`, and `folder`.
    pub(crate) fn over(user: User, folder: &Path, pid_file: &Path, signal: &str) -> Self {
        let mut command = user.command(Path::new("/bin/sh"));
        command.args(["-c", SCRIPT, "guard"]).arg(folder).arg(pid_file).arg(signal);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("/bin/sh runs"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _it_may_be_reaped_already = self.0.wait();
    }
}
