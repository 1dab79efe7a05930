//! The integrity of a whole store, and evidence that somebody else checks.

use aether::prelude::*;
use aether::recording::{Evidence, EvidenceError};
use aether::sqlite::rusqlite::Connection;
use aether::store::{IntegrityReport, RunFilter, Store, check_integrity};
use serde_json::Value;

use crate::seeds::kit::{Calls, Place, builder, in_time, run_id, stores, until_waiting};

/// Pay, once somebody agrees.
#[step(effect = "tool", irreversible, approval = "required")]
async fn ev_pay(cx: &mut StepCx, cents: u32) -> Result<String> {
    Calls::note(cx)?;
    // So large that it is stored beside the journal.
    Ok("x".repeat(80_000 + cents as usize))
}

/// Look something up.
#[step(effect = "read")]
async fn ev_look(cx: &mut StepCx, cents: u32) -> Result<u32> {
    Calls::note(cx)?;
    Ok(cents)
}

/// Look, pay, and go on as new once.
#[workflow]
async fn ev_order(cx: &mut Cx, cents: u32) -> Result<usize> {
    let cents = ev_look(cx, cents).await?;
    let receipt = ev_pay(cx, cents).await?;
    if cents < 10 {
        return cx.continue_as_new::<ev_order>(cents + 10).await;
    }
    Ok(receipt.len())
}

/// Runs that have ended after an approval, were forked, went on as new, and wait for an approval.
async fn filled(place: &Place) -> Engine {
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    for (id, cents) in [("paid", 20), ("renewed", 1), ("waits", 30)] {
        let run = engine.start::<ev_order>(cents).id(id).label("customer", "acme").await.unwrap();
        if id == "waits" {
            in_time(until_waiting(&run)).await;
            continue;
        }
        in_time(async {
            while !run.status().await.unwrap().is_terminal() {
                for wait in engine.pending(&run_id(id)).await.unwrap() {
                    let _decided_meanwhile = engine.approve(&run_id(id), &wait, "ann").await;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
        run.result().await.unwrap();
    }
    let fork = engine.fork(&run_id("paid")).at_end().plan().await.unwrap().keep_all().id("forked");
    in_time(fork.start("ann").await.unwrap().end()).await.unwrap();
    engine
}

async fn checked(store: &dyn Store) -> IntegrityReport {
    check_integrity(store, RunFilter::new(), |_| ()).await.unwrap()
}

#[tokio::test]
async fn a_store_is_sound_whatever_its_runs_went_through() {
    for make in stores().into_iter().chain([Place::encrypted as fn() -> Place]) {
        let place = make();
        let engine = filled(&place).await;
        let (report, mut seen) = (checked(&*place.store).await, Vec::new());
        assert!(report.is_sound(), "{report}");
        assert_eq!((report.runs, report.encoded), (4, 0));
        assert!(report.values >= 3 && report.events > report.frames, "{report:?}");
        let progress = |report: &IntegrityReport| seen.push(report.runs);
        check_integrity(&*place.store, RunFilter::new().limit(3), progress).await.unwrap();
        assert_eq!(seen, [1, 2, 3]);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn whatever_is_changed_in_a_file_is_found_and_named() {
    let changes = [
        (
            "UPDATE aether_journal SET events = replace(events, '\"input\"', '\"inputs\"') WHERE run_no = 1 AND position = 0",
            "altered",
        ),
        ("UPDATE aether_journal SET at = at + 1 WHERE run_no = 1 AND position > 0", "altered"),
        ("UPDATE aether_journal SET chain = zeroblob(32) WHERE run_no = 1", "altered"),
        (
            "DELETE FROM aether_journal WHERE run_no = 1 AND position = (SELECT max(position) FROM aether_journal WHERE run_no = 1)",
            "journal ends here",
        ),
        (
            "DELETE FROM aether_journal WHERE run_no = 1 AND position > 0 AND position <
          (SELECT max(position) FROM aether_journal WHERE run_no = 1)",
            "gap",
        ),
        ("UPDATE aether_runs SET next = next + 1 WHERE no = 1", "journal ends here"),
        ("UPDATE aether_runs SET status = 'completed' WHERE id = 'waits'", "its journal does not"),
        ("UPDATE aether_blobs SET bytes = CAST(replace(CAST(bytes AS TEXT), 'xx', 'xy') AS BLOB)", "altered"),
        ("DELETE FROM aether_blobs", "missing"),
    ];
    let place = Place::sqlite();
    filled(&place).await.shutdown().await.unwrap();
    for (change, says) in changes {
        let (path, copy) = (place.file(), tempfile::tempdir().unwrap());
        let copy = copy.path().join("copy.db");
        aether::sqlite::back_up(&path, &copy, |_| ()).unwrap();
        let conn = Connection::open(&copy).unwrap();
        assert!(conn.execute(change, []).unwrap() > 0, "{change} changes nothing");
        drop(conn);
        let store = aether::sqlite::SqliteStore::open(&copy).unwrap();
        let report = checked(&store).await;
        assert!(!report.is_sound(), "{change}: {report}");
        assert!(report.problems.iter().all(|problem| problem.reason.contains(says)), "{change}: {report}");
    }
}

#[tokio::test]
async fn without_the_keys_the_chains_of_encrypted_runs_are_checked() {
    let place = Place::encrypted();
    filled(&place).await.shutdown().await.unwrap();
    let report = checked(&*place.bare()).await;
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.runs, report.encoded, report.values), (4, 4, 0));
    assert!(report.events > 10, "{report}");
}

#[tokio::test]
async fn evidence_holds_for_who_has_nothing_but_the_file() {
    for make in stores().into_iter().chain([Place::encrypted as fn() -> Place]) {
        let place = make();
        let engine = filled(&place).await;
        for id in ["paid", "renewed", "waits", "forked"] {
            let evidence = engine.evidence(&run_id(id), "auditor").await.unwrap();
            let file = tempfile::NamedTempFile::new().unwrap();
            evidence.write(file.path()).unwrap();
            let report = Evidence::read(file.path()).unwrap().verify();
            assert!(report.is_sound() && report.replay.fits, "{id}: {report}");
            let approved = report.decisions.iter().find(|decision| decision.kind == "approval_decided");
            assert_eq!(approved.is_some(), id != "waits", "{id}: {report}");
            if let Some(approved) = approved {
                assert!(approved.actor == "ann" && approved.digest.is_some(), "{approved:?}");
            }
            assert!(report.to_string().contains(&report.tip), "{report}");
        }
        let unknown = engine.evidence(&run_id("nobody"), "auditor").await.unwrap_err();
        assert!(matches!(unknown, EvidenceError::Store(_)), "{unknown}");
        engine.shutdown().await.unwrap();
    }
}

/// Changes one thing of a file's text.
type Change = fn(&mut Value);

#[tokio::test]
async fn evidence_that_was_changed_does_not_hold() {
    let changes: [(&str, Change); 14] = [
        ("an event", |file| replace(&mut file["frames"][0]["text"], "acme", "evil")),
        ("a time", |file| file["frames"][1]["at"] = "2020-01-01T00:00:00Z".into()),
        ("a hash", |file| file["frames"][1]["chain"] = "00".repeat(32).into()),
        ("no hash", |file| file["frames"][1]["chain"] = "zz".into()),
        ("a frame less at the end", |file| drop(file["frames"].as_array_mut().unwrap().pop())),
        ("a frame less", |file| drop(file["frames"].as_array_mut().unwrap().remove(1))),
        ("no frame", |file| file["frames"] = Value::Array(Vec::new())),
        ("the tip", |file| file["tip"] = "00".repeat(32).into()),
        ("who decided", |file| file["decisions"][0]["actor"] = "eve".into()),
        ("no decisions", |file| file["decisions"] = Value::Array(Vec::new())),
        ("the workflow", |file| file["workflow"] = "other".into()),
        ("the status", |file| file["status"] = "running".into()),
        ("a ledger row's arguments", |file| file["ledger"][0]["digest"] = "00".into()),
        ("a value", |file| {
            file["values"]
                .as_object_mut()
                .unwrap()
                .values_mut()
                .for_each(|value| replace(&mut value["text"], "xx", "xy"));
        }),
    ];
    let place = Place::sqlite();
    let engine = filled(&place).await;
    let text = engine.evidence(&run_id("paid"), "auditor").await.unwrap().to_text().unwrap();
    for (what, change) in changes {
        let mut file: Value = serde_json::from_str(&text).unwrap();
        change(&mut file);
        assert_ne!(file, serde_json::from_str::<Value>(&text).unwrap(), "{what}");
        let report = Evidence::parse(&file.to_string()).unwrap().verify();
        assert!(!report.is_sound(), "{what}: {report}");
    }
    for (text, says) in [
        ("", "no evidence"),
        ("{}", "no evidence"),
        (r#"{"format":"aether-recording","version":1}"#, "aether-recording"),
        (r#"{"format":"aether-evidence","version":99}"#, "update the program"),
        (&text[..text.len() / 2], "no evidence"),
    ] {
        let refused = Evidence::parse(text).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
    }
    engine.shutdown().await.unwrap();
}

fn replace(text: &mut Value, old: &str, new: &str) {
    *text = text.as_str().unwrap().replace(old, new).into();
}
