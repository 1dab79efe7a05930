//! Many runs at once, and values and ids that a command line could take for something else.

use serde_json::Value;

use crate::colour::on_a_terminal;
use crate::desk::{Worker, builder, nap, parcel, quiz, stay, waits};
use crate::kit::{Desk, valid};

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_are_ended_when_somebody_agrees_to_their_number() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    for id in ["nap-1", "nap-2", "nap-3"] {
        engine.start::<nap>("tired".into()).id(id).label("batch", "7").await.unwrap();
        waits(&engine, id).await;
    }
    engine.start::<nap>("tired".into()).id("other").await.unwrap();
    waits(&engine, "other").await;
    engine.shutdown().await.unwrap();

    let cancel = &["runs", "cancel", "--label", "batch=7", "--reason", "enough"][..];
    for (args, exit, says) in [
        (cancel, 2, "cancel 3 runs (nap-3, nap-2, nap-1)"),
        (&["runs", "cancel", "--reason", "x"], 2, "no run is named"),
        (&["runs", "cancel", "nap-1", "--open", "--reason", "x"], 2, "also described"),
        (&["runs", "terminate", "--queue", "none", "--reason", "x", "--yes"], 3, "no run fits"),
    ] {
        let said = desk.cli(args).exits(exit);
        assert!(said.err.contains(says), "{args:?}: {}", said.err);
    }
    assert!(desk.cli(cancel).exits(2).err.contains("--yes"));
    let shown = on_a_terminal(&mut desk.command(cancel), "no\n", &[]);
    assert!(shown.contains("cancel 3 runs") && shown.contains("nothing was done"), "{shown}");
    let ending = |run: &str| desk.json("runs show", &[run])["run"]["events"].clone();
    let before = ending("nap-1");
    let shown = on_a_terminal(&mut desk.command(&[cancel, &["--why", "timer"]].concat()), "y\n", &[]);
    assert!(shown.contains("nap-2: cancel requested by ada"), "{shown}");
    assert_eq!(ending("nap-1"), before, "nobody is there to end it yet");
    let script = desk.json("runs terminate", &["--id", "nap-", "--reason", "now", "--yes"]);
    assert_eq!(script["done"].as_array().unwrap().len(), 3);

    let worker = Worker::start(&desk.db);
    let ends = desk.cli(&["runs", "wait", "nap-1", "nap-2", "nap-3", "--timeout", "60s", "--json"]).exits(8);
    let ends = valid("runs wait", &ends.out);
    assert!(ends["runs"].as_array().unwrap().iter().all(|end| end["status"] == "cancelled"), "{ends}");
    assert_eq!(desk.json("runs show", &["other"])["run"]["status"], "waiting");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_are_retried_and_what_is_refused_is_named() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    for id in ["stay-1", "stay-2"] {
        engine.start::<stay>("Bob".into()).id(id).await.unwrap().result().await.unwrap_err();
    }
    engine.shutdown().await.unwrap();
    let bills = desk.own(&["runs", "retry", "--workflow", "stay", "--dry-run", "--json"]).exits(0);
    let bills = valid("runs retry many", &bills.out);
    let forks = |retried: &Value| retried["forks"].as_array().unwrap().clone();
    assert!(forks(&bills).len() == 2 && forks(&bills).iter().all(|fork| fork["fork"].is_null()), "{bills}");
    let refused = desk.own(&["runs", "retry", "--workflow", "stay"]).exits(2);
    assert!(refused.err.contains("retry 2 runs") && refused.err.contains("--yes"), "{}", refused.err);
    let retried = desk.own(&["runs", "retry", "--workflow", "stay", "--yes"]).exits(0);
    assert!(retried.out.contains("stay-1: retried as stay-1~2"), "{}", retried.out);
    // One that has not failed is named, and keeps no other one back.
    let mixed = desk.own(&["runs", "retry", "stay-1", "stay-2~2", "--json"]).exits(5);
    let mixed = valid("runs retry many", &mixed.out);
    assert_eq!((forks(&mixed).len(), &mixed["refused"][0]["run"]), (1, &"stay-2~2".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_below_zero_are_values_and_hints_are_safe_in_a_shell() {
    let desk = Desk::new();
    let engine = builder(&desk.db).start().await.unwrap();
    let hostile = "a b;$(touch pwned)";
    engine.start::<parcel>("Ann".into()).id(hostile).await.unwrap();
    engine.start::<parcel>("Bob".into()).id("parcel").await.unwrap();
    engine.start::<quiz>("How cold is it?".into()).id("quiz").await.unwrap();
    for id in [hostile, "parcel", "quiz"] {
        waits(&engine, id).await;
    }
    engine.shutdown().await.unwrap();
    desk.cli(&["signal", "parcel", "paid", "-5"]).exits(0);
    desk.cli(&["inbox", "answer", "quiz", "-5"]).exits(0);
    desk.cli(&["inbox", "resolve", "quiz", "--happened", "-5"]).exits(3);
    let _worker = Worker::start(&desk.db);
    assert_eq!(desk.json("runs wait", &["parcel", "--timeout", "60s"])["runs"][0]["result"], -5);

    let shown = desk.cli(&["runs", "show", hostile]).exits(0).out;
    assert!(shown.contains("signal 'a b;$(touch pwned)' paid VALUE"), "{shown}");
    let missing = desk.cli(&["runs", "show", "$(x);y"]).exits(3).err;
    assert!(missing.contains("runs list --id '$(x);y'"), "{missing}");
    let nothing = desk.cli(&["inbox", "show", hostile, "nothing"]).exits(3).err;
    assert!(nothing.contains("runs show 'a b;$(touch pwned)'"), "{nothing}");
}
