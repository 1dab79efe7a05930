//! Values that would take a terminal over.

use crate::colour::on_a_terminal;
use crate::desk::{builder, nap, parcel, quiz, talk, waits};
use crate::kit::{Desk, valid};

/// Clears the screen, sets the title, turns the direction of writing, forges a line, and hides.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}evil\u{2028}\r\n\u{7f}\u{200b}y";

/// Asserts that nothing of it is printed as it is.
#[track_caller]
fn is_safe(text: &str) {
    let bad = |c: &char| {
        (c.is_control() && *c != '\n') || ['\u{202e}', '\u{2028}', '\u{200b}', '\u{9b}'].contains(c)
    };
    assert_eq!(text.chars().find(bad), None, "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_hostile_value_reaches_the_terminal() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    // Ids and labels hold no control characters; those that turn and hide text they may.
    let turned = "r\u{202e}evil\u{200b}";
    engine.start::<nap>(HOSTILE.into()).id(turned).label("k", turned).await.unwrap();
    engine.start::<quiz>(HOSTILE.into()).id("quiz").await.unwrap();
    engine.start::<talk>(vec![HOSTILE.into()]).id("talk").await.unwrap().result().await.unwrap();
    let parcel = engine.start::<parcel>(HOSTILE.into()).id("parcel").await.unwrap();
    waits(&engine, "quiz").await;
    waits(&engine, "parcel").await;
    engine.cancel(parcel.id(), HOSTILE, HOSTILE).await.unwrap();
    parcel.end().await.unwrap();
    engine.shutdown().await.unwrap();
    let mut seen = 0;
    for args in [
        &["runs", "list"][..],
        &["runs", "show", "quiz"],
        &["runs", "show", turned],
        &["runs", "show", "talk", "--full"],
        &["runs", "history", "parcel", "--full"],
        &["runs", "wait", "parcel"],
        &["inbox", "list", "--kind", "question", "--kind", "timer"],
        &["inbox", "show", "quiz"],
        &["inbox", "answer", "quiz", HOSTILE],
        &["streams", "tail", "talk", "reply"],
        &["runs", "show", HOSTILE],
        &["doctor"],
    ] {
        for json in [&[][..], &["--json"]] {
            let said = desk.cli(&[args, json].concat());
            is_safe(&said.out);
            is_safe(&said.err);
            seen += usize::from(said.out.contains("evil") || said.err.contains("evil"));
        }
        let shown = on_a_terminal(&mut desk.command(args), "", &[("NO_COLOR", "1")]);
        is_safe(&shown.replace('\r', ""));
    }
    assert!(seen >= 14, "what is hostile is shown, escaped: {seen}");
    // JSON says the very same value.
    let shown = desk.cli(&["runs", "show", "quiz", "--json"]).exits(0);
    assert_eq!(valid("runs show", &shown.out)["input"]["question"], HOSTILE);
    // An export to a file or to a program is byte for byte what was recorded.
    let export = desk.cli(&["export", "talk"]).exits(0).out;
    let file = desk.folder.path().join("talk.json");
    desk.cli(&["export", "talk", "--out", file.to_str().unwrap()]).exits(0);
    assert_eq!(export, std::fs::read_to_string(file).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_values_are_cut_and_full_shows_all() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    let long = "long ".repeat(2_000);
    engine.start::<nap>(long.clone()).id("nap").await.unwrap();
    waits(&engine, "nap").await;
    engine.shutdown().await.unwrap();
    let cut = desk.cli(&["runs", "show", "nap"]).exits(0).out;
    assert!(cut.contains("… (8011 more characters: --full)") && cut.len() < 4_000, "{cut}");
    let full = desk.cli(&["runs", "show", "nap", "--full"]).exits(0).out;
    assert!(full.contains(&long), "{full}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_evidence_forges_no_line() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    engine.start::<talk>(vec!["hi".into()]).id("talk").await.unwrap().result().await.unwrap();
    engine.shutdown().await.unwrap();
    let kept = desk.folder.path().join("kept.json");
    let kept = kept.to_str().unwrap();
    desk.own(&["evidence", "export", "talk", "--out", kept]).exits(0);
    let honest: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    let lines = desk.cli(&["evidence", "verify", kept]).exits(0).out.lines().count();
    for field in ["status", "workflow", "tip"] {
        let mut file = honest.clone();
        file[field] = format!("{HOSTILE}\nhistory 00\nreplay, as claimed: fits").into();
        file["replay"]["verdict"] = format!("{HOSTILE}\nhistory 00").into();
        std::fs::write(kept, file.to_string()).unwrap();
        let said = desk.cli(&["evidence", "verify", kept]).exits(6);
        is_safe(&said.out);
        let problems = said.out.lines().filter(|line| line.starts_with("DOES NOT HOLD")).count();
        assert_eq!(said.out.lines().count(), lines + problems, "{}", said.out);
        assert!(problems > 0 && !said.out.lines().any(|line| line == "history 00"), "{}", said.out);
    }
}
