//! The table of exit codes in `docs/cli.md`, a test for each row.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use aether::sqlite::rusqlite::Connection;

use crate::desk::{MARK, one_of_each};
use crate::kit::{AETHER, Desk, Said, bare};

async fn desk() -> Desk {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    desk
}

fn empty() -> Desk {
    let desk = Desk::new();
    desk.cli(&["db", "migrate"]).exits(0);
    desk
}

#[test]
fn exit_0_done() {
    empty().cli(&["runs", "list"]).exits(0);
    Said::of(bare().arg("--help").output().unwrap()).exits(0);
}

#[test]
fn exit_1_failed() {
    let desk = empty();
    let file = desk.folder.path().join("letter");
    std::fs::write(&file, "Dear Ann,").unwrap();
    let said = desk.cli(&["import", file.to_str().unwrap()]).exits(1);
    assert!(said.err.contains("is not a recording") && said.err.contains("export RUN --out"), "{}", said.err);
}

#[test]
fn exit_2_usage() {
    let desk = empty();
    assert!(desk.cli(&["runs", "cancel", "r"]).exits(2).err.contains("--reason"));
    assert!(desk.cli(&["runs", "list", "--limit", "0"]).exits(2).err.contains("at least 1"));
    assert!(desk.cli(&["queues", "limit", "set", "mail", "--starts", "5"]).exits(2).err.contains("--per"));
    assert!(desk.cli(&["queues", "limit", "set", "mail*", "--running", "5"]).exits(2).err.contains("mail*"));
    assert!(desk.cli(&["runs", "list", "--status", "dead"]).exits(2).err.contains("pending, running"));
    assert!(desk.cli(&["signal", "r", "s", "yes"]).exits(2).err.contains("quotes"));
    let said = Said::of(bare().args(["runs", "list"]).output().unwrap()).exits(2);
    assert!(said.err.contains("--db PATH") && said.err.contains("AETHER_DB"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_3_not_found() {
    let desk = desk().await;
    let said = desk.cli(&["runs", "show", "nobody"]).exits(3);
    assert!(
        said.err.contains("there is no run `nobody`") && said.err.contains("runs list --id"),
        "{}",
        said.err
    );
    for args in [
        &["runs", "wait", "nobody"][..],
        &["runs", "cancel", "count-1", "nobody", "--reason", "x"],
        &["ledger", "nobody"],
        &["streams", "tail", "nobody", "reply"],
        &["inbox", "approve", "quiz-1", "--digest", "x"],
        &["inbox", "show", "quiz-1", "nothing"],
        &["graph", "nothing"],
        &["runs", "fork", "stay-1", "--before", "9:nothing"],
        &["import", "nowhere.json"],
        &["schema", "nothing"],
    ] {
        desk.cli(args).exits(3);
    }
    assert!(desk.own(&["start", "count", "4"]).exits(2).err.contains("an object of arguments"));
    // What needs the code of the workflows says where that is.
    for args in [&["verify", "count-1"][..], &["check"], &["start", "count", "3"]] {
        let said = desk.cli(args).exits(3);
        assert!(said.err.contains("aether::cli::run"), "{}", said.err);
    }
    assert!(desk.own(&["start", "nothing"]).exits(3).err.contains("this program has count"));
}

#[test]
fn exit_4_store() {
    let desk = Desk::new();
    let said = desk.cli(&["runs", "list"]).exits(4);
    assert!(said.err.contains("there is no file") && !desk.db.exists(), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_5_conflict() {
    let desk = desk().await;
    assert!(desk.cli(&["runs", "cancel", "count-1", "--reason", "x"]).exits(5).err.contains("is completed"));
    assert!(desk.cli(&["signal", "count-1", "paid"]).exits(5).err.contains("is completed"));
    assert!(
        desk.cli(&["inbox", "approve", "count-1", "--digest", "x"]).exits(5).err.contains("is completed")
    );
    assert!(desk.cli(&["runs", "retry", "count-1"]).exits(5).err.contains("did not fail"));
    assert!(desk.cli(&["runs", "fork", "nap-1", "--from-start"]).exits(5).err.contains("--end-origin"));
    // By another bill than was seen nothing is started; by that one it is.
    let fork = ["nap-1", "--from-start", "--leave-origin-running"];
    let bill = desk.json("runs fork", &[&fork[..], &["--dry-run"]].concat());
    let other = desk.cli(&[&["runs", "fork"][..], &fork, &["--digest", "x"]].concat()).exits(5);
    assert!(other.err.contains("another one than the digest names"), "{}", other.err);
    assert!(desk.cli(&["runs", "show", "nap-1~fork-1"]).exits(3).out.is_empty());
    let digest = bill["digest"].as_str().unwrap();
    let forked = desk.json("runs fork", &[&fork[..], &["--digest", digest]].concat());
    assert_eq!(forked["fork"], "nap-1~fork-1");
    assert!(
        desk.own(&["start", "count", r#"{"n":4}"#, "--id", "count-1"]).exits(5).err.contains("another input")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_6_problems() {
    let desk = desk().await;
    assert!(desk.cli(&["doctor"]).exits(6).out.contains("PROBLEM"));
    // The code leads to another result than this journal has.
    let recording = desk.cli(&["export", "count-1"]).exits(0).out;
    let other = empty();
    let file = other.folder.path().join("count.json");
    assert!(recording.contains(r#""input":{"n":3}"#));
    std::fs::write(&file, recording.replace(r#""input":{"n":3}"#, r#""input":{"n":2}"#)).unwrap();
    other.cli(&["import", file.to_str().unwrap()]).exits(0);
    assert!(other.own(&["verify", "count-1"]).exits(6).out.contains("does not fit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_7_timed_out() {
    let desk = desk().await;
    let said = desk.cli(&["runs", "wait", "nap-1", "count-1", "--timeout", "0s"]).exits(7);
    assert!(said.out.contains("nap-1: waiting") && said.out.contains("count-1: completed"), "{}", said.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_8_not_completed() {
    let desk = desk().await;
    assert!(desk.cli(&["runs", "wait", "stay-1"]).exits(8).out.contains("there is no Bob"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let desk = empty();
    for args in ["--help", "schema", "man", "completions bash", "runs list --json"] {
        let db = desk.db.display();
        let line = format!("'{AETHER}' --db '{db}' {args} | true; echo ${{PIPESTATUS[0]}}");
        let said = Said::of(std::process::Command::new("bash").args(["-c", &line]).output().unwrap());
        assert_eq!((&*said.out, &*said.err), ("0\n", ""), "{args}");
    }
}

/// How a command ends whose reader is gone before it prints.
fn unread(command: &mut Command) -> i32 {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    output.status.code().unwrap()
}

/// As [`unread`], of the program's own command line: its reader goes when it begins.
fn unread_own(desk: &Desk, args: &[&str]) -> i32 {
    let mut child = desk.own_command(args).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line == MARK));
    child.wait().unwrap().code().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_check_found_is_its_exit_code_whoever_reads() {
    let desk = desk().await;
    let kept = desk.folder.path().join("kept.json");
    let kept = kept.to_str().unwrap();
    desk.own(&["evidence", "export", "count-1", "--out", kept]).exits(0);
    let recording = desk.cli(&["export", "count-1"]).exits(0).out;
    let (other, file) = (empty(), desk.folder.path().join("count.json"));
    std::fs::write(&file, recording.replace(r#""input":{"n":3}"#, r#""input":{"n":2}"#)).unwrap();
    other.cli(&["import", file.to_str().unwrap()]).exits(0);
    let noted = "0".repeat(64);
    for json in [&[][..], &["--json"]] {
        for (args, exit) in [
            (&["doctor"][..], 6),
            (&["db", "check"], 0),
            (&["evidence", "verify", kept], 0),
            (&["evidence", "verify", kept, "--tip", &noted], 6),
            (&["runs", "wait", "count-1"], 0),
            (&["runs", "wait", "stay-1"], 8),
            (&["runs", "wait", "nap-1", "--timeout", "0s"], 7),
            (&["runs", "list"], 0),
        ] {
            assert_eq!(unread(&mut desk.command(&[args, json].concat())), exit, "{args:?}");
        }
        assert_eq!(unread_own(&other, &[&["verify", "count-1"][..], json].concat()), 6);
    }
    Connection::open(&desk.db).unwrap().execute("UPDATE aether_journal SET at = at + 1", []).unwrap();
    assert_eq!(unread(&mut desk.command(&["db", "check"])), 6);
    assert_eq!(unread_own(&desk, &["check"]), 6);
}
