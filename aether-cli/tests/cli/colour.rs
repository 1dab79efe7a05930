//! Colour is for people on terminals.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::desk::one_of_each;
use crate::kit::Desk;

/// What a command prints on a terminal of its own, on which somebody has typed `typed`.
pub(crate) fn on_a_terminal(command: &mut Command, typed: &str, environment: &[(&str, &str)]) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let end = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut terminal = File::from(terminal);
    terminal.write_all(typed.as_bytes()).unwrap();
    command.envs(environment.iter().copied());
    command.stdin(end.try_clone().unwrap()).stdout(end.try_clone().unwrap()).stderr(Stdio::from(end));
    let mut child = command.spawn().unwrap();
    // The command holds ends of the terminal as well.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut shown = Vec::new();
    // When the last process that has it open has ended, reading it fails.
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = terminal.read(&mut part) {
        shown.extend_from_slice(&part[..count]);
    }
    child.wait().unwrap();
    String::from_utf8(shown).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn colour_is_for_terminals_and_no_color_is_respected() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    let list = &["runs", "list"][..];
    let colored = |text: &str| text.contains("\u{1b}[");
    assert!(!colored(&desk.cli(list).exits(0).out), "a pipe is no terminal");
    assert!(colored(&desk.cli(&["runs", "list", "--color", "always"]).exits(0).out));
    assert!(!colored(&desk.cli(&["runs", "list", "--color", "always", "--json"]).exits(0).out));
    assert!(colored(&on_a_terminal(&mut desk.command(list), "", &[])));
    assert!(!colored(&on_a_terminal(&mut desk.command(list), "", &[("NO_COLOR", "1")])));
    assert!(!colored(&on_a_terminal(&mut desk.command(list), "", &[("TERM", "dumb")])));
    let never = &["runs", "list", "--color", "never"];
    assert!(!colored(&on_a_terminal(&mut desk.command(never), "", &[])));
    let refused = &["runs", "show", "nobody"];
    assert!(colored(&on_a_terminal(&mut desk.command(refused), "", &[])));
    assert!(!colored(&on_a_terminal(&mut desk.command(refused), "", &[("NO_COLOR", "1")])));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_on_a_terminal_sees_what_for() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    let wait = &["runs", "wait", "nap-1", "count-1", "--timeout", "500ms"];
    let shown = on_a_terminal(&mut desk.command(wait), "", &[]);
    assert!(shown.contains("1 of 2 ended; nap-1: sleep waits for a time"), "{shown}");
    assert_eq!(desk.cli(wait).exits(7).err, "", "no terminal, no progress");
}
