//! Decisions are about what was shown, and are recorded with whoever made them.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::colour::on_a_terminal;
use crate::desk::{Worker, builder, edited, launched, refund, waits};
use crate::kit::{Desk, Said, until, valid};

/// Two refunds wait for consent, and nobody advances them.
async fn desk() -> Desk {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    engine.start::<refund>("order-7".into()).id("refund-1").await.unwrap();
    engine.start::<refund>("order-8".into()).id("refund-2").await.unwrap();
    waits(&engine, "refund-1").await;
    waits(&engine, "refund-2").await;
    engine.shutdown().await.unwrap();
    desk
}

fn digest(desk: &Desk, run: &str) -> String {
    desk.json("inbox show", &[run])["waits"][0]["digest"].as_str().unwrap().to_owned()
}

/// What was paid, when a process has advanced the run.
fn result(desk: &Desk, run: &str) -> Value {
    let _worker = Worker::start(&desk.db);
    desk.json("runs wait", &[run, "--timeout", "60s"])["runs"][0]["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_must_say_what_it_saw() {
    let desk = desk().await;
    let said = desk.cli(&["inbox", "approve", "refund-1"]).exits(2);
    let seen = digest(&desk, "refund-1");
    assert!(said.out.contains("9007199254740993") && said.out.contains(&seen), "{}", said.out);
    assert!(said.err.contains(&format!("--digest {seen}")), "{}", said.err);
    assert!(desk.cli(&["inbox", "approve", "refund-1", "--json"]).exits(2).err.contains(&seen));
    // That of another run, or an older one, approves nothing; nor does it reject or edit.
    let other = digest(&desk, "refund-2");
    for args in [
        &["inbox", "approve", "refund-1", "--digest", &other][..],
        &["inbox", "approve", "refund-1", "--digest", &other, "--args", "{}"],
        &["inbox", "reject", "refund-1", "--digest", &other, "--reason", "x"],
    ] {
        let said = desk.cli(args).exits(5);
        assert!(said.err.contains("something else than what was shown"), "{}", said.err);
    }
    let done = desk.json("inbox approve", &["refund-1", "--digest", &seen, "--actor", "carl"]);
    assert!(done["done"][0]["note"].as_str().unwrap().contains("takes effect when one starts"));
    assert!(desk.cli(&["inbox", "approve", "refund-1", "--digest", &seen]).exits(5).err.contains("by carl"));
    assert_eq!(result(&desk, "refund-1"), "paid 9007199254740993 back for order-7");
    let decided = desk.json("runs history", &["refund-1", "--kind", "approval_decided"]);
    assert_eq!(decided["events"][0]["event"]["actor"], "carl");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_shown_the_arguments_and_asked() {
    let desk = desk().await;
    let approve = &["inbox", "approve", "refund-1"][..];
    let shown = on_a_terminal(&mut desk.command(approve), "no\n", &[]);
    assert!(shown.contains("Approve this? [y/N]") && shown.contains("nothing was approved"), "{shown}");
    assert!(!desk.json("inbox list", &["--run", "refund-1"])["waits"].as_array().unwrap().is_empty());
    let shown = on_a_terminal(&mut desk.command(approve), "y\n", &[]);
    assert!(shown.contains("order-7") && shown.contains(&digest(&desk, "refund-1")), "{shown}");
    assert!(shown.contains("approved by ada"), "{shown}");
    assert_eq!(result(&desk, "refund-1"), "paid 9007199254740993 back for order-7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_shown_all_of_what_is_asked_for() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    let order = format!("order-7{} and all my money", "x".repeat(3_000));
    engine.start::<refund>(order).id("refund-1").await.unwrap();
    waits(&engine, "refund-1").await;
    engine.shutdown().await.unwrap();
    let shown = on_a_terminal(&mut desk.command(&["inbox", "approve", "refund-1"]), "no\n", &[]);
    assert!(shown.contains("and all my money") && !shown.contains("more characters"), "{shown}");
    let seen = desk.cli(&["inbox", "approve", "refund-1"]).exits(2).out;
    assert!(seen.contains("and all my money"), "what the digest is of: {seen}");
}

/// An editor that does this to the file.
fn editor(desk: &Desk, script: &str) -> String {
    let path = desk.folder.path().join("editor");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    // With an argument, as many write it.
    format!("{} --wait", path.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_edited_in_the_editor() {
    let desk = desk().await;
    let edit = |editor: &str| {
        let mut command = desk.command(&["inbox", "approve", "refund-1", "--edit", "--json"]);
        Said::of(command.env("EDITOR", editor).output().unwrap())
    };
    let none = Said::of(desk.command(&["inbox", "approve", "refund-1", "--edit"]).output().unwrap());
    assert!(none.exits(2).err.contains("EDITOR"));
    assert!(edit("false").exits(1).err.contains("nothing was approved"));
    assert!(edit("true").exits(1).err.contains("nothing was edited"));
    assert!(edit(&editor(&desk, "echo '{' > \"$2\"")).exits(2).err.contains("no JSON"));
    edit(&editor(&desk, "grep -q 9007199254740993 \"$2\" && sed -i s/9007199254740993/5/ \"$2\"")).exits(0);
    assert_eq!(result(&desk, "refund-1"), "paid 5 back for order-7");
    let shown = desk.json("runs show", &["refund-1"]);
    assert_eq!(
        (&shown["steps"][0]["edited"], &shown["steps"][0]["args"]["cents"]),
        (&edited(), &json!(9_007_199_254_740_993_u64))
    );
    let seen = digest(&desk, "refund-2");
    let args = r#"{"order":"order-8","cents":1}"#;
    desk.json("inbox approve", &["refund-2", "--digest", &seen, "--args", args]);
    assert_eq!(result(&desk, "refund-2"), "paid 1 back for order-8");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_doubt_is_resolved_after_a_kill() {
    let desk = Desk::new();
    let rocket = desk.folder.path().join("rocket");
    launched(&desk.db, &rocket, "voyage").await;
    // The process is dead: nobody is there, and nothing can be resolved before somebody looked at the journal.
    let shown = desk.json("runs show", &["voyage"]);
    assert_eq!(shown["run"]["hold"]["reason"], "no-worker");
    assert_eq!(shown["steps"][0]["in_doubt"], true);
    std::fs::remove_file(&rocket).unwrap();
    let worker = Worker::start(&desk.db);
    let doubtful = || desk.json("runs list", &["--why", "in-doubt"])["runs"].as_array().unwrap().len() == 1;
    until(doubtful).await;
    assert!(desk.cli(&["doctor"]).exits(6).out.contains("in doubt: voyage"));
    let seen = digest(&desk, "voyage");
    desk.cli(&["inbox", "resolve", "voyage", "--digest", "other", "--abandon"]).exits(5);
    desk.cli(&["inbox", "resolve", "voyage"]).exits(2);
    desk.json("inbox resolve", &["voyage", "--digest", &seen, "--did-not-happen"]);
    until(|| rocket.exists()).await;
    let resolved = desk.json("runs history", &["voyage", "--kind", "invocation_resolved"]);
    let last = resolved["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["event"]["actor"], "ada");
    worker.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_sent_once_and_say_who_sent_them() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    engine.start::<crate::desk::parcel>("Ann".into()).id("parcel").await.unwrap();
    engine.start::<crate::desk::parcel>("Bob".into()).id("other").await.unwrap();
    waits(&engine, "parcel").await;
    waits(&engine, "other").await;
    engine.shutdown().await.unwrap();
    let send = &["parcel", "paid", "1", "--id", "payment-1"];
    let sent = desk.json("signal", send);
    assert_eq!((&sent["done"][0]["action"], &sent["done"][0]["actor"]), (&json!("signalled"), &Value::Null));
    assert_eq!(desk.json("signal", send)["done"][0]["action"], "duplicate");
    desk.json("signal", &["other", "paid", "2"]);
    // Nobody said who it is: the system does.
    let mut command = desk.command(&["signal", "other", "unheard", "3", "--json"]);
    let said = Said::of(command.env_remove("AETHER_ACTOR").output().unwrap()).exits(0);
    let login = Said::of(std::process::Command::new("id").arg("-un").output().unwrap());
    assert_eq!(valid("signal", &said.out)["done"][0]["actor"], login.out.trim());
    assert_eq!((result(&desk, "parcel"), result(&desk, "other")), (json!(1), json!(2)));
    let received = desk.json("runs history", &["other", "--kind", "signal_received"]);
    assert!(received["events"][0].to_string().contains("ada@"), "{received}");
}
