//! The integrity of a whole store, and evidence that somebody else checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aether::effect::{EffectClass, Payload};
use aether::encryption::{CodecError, CodedStore, EncodedPayload, PayloadCodec, PayloadPlace};
use aether::id::{CommandId, IdempotencyKey, InvocationId};
use aether::prelude::*;
use aether::recording::{Evidence, EvidenceError};
use aether::sqlite::rusqlite::Connection;
use aether::store::event::{Event, NodeStarted, ToolInvocationStarted};
use aether::store::journal::Frame;
use aether::store::{Ack, Append, IntegrityReport, MemoryStore, RunFilter, Store, check_integrity};
use serde_json::Value;

use crate::seeds::kit::{Calls, Hand, Journal, Place, builder, in_time, run_id, stores, until_waiting};

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
        ("UPDATE aether_runs SET next = 5 WHERE id = 'paid'", "its row counts 5 events, and its journal "),
        ("UPDATE aether_runs SET next = next - 1 WHERE id = 'paid'", "its row"),
        ("UPDATE aether_runs SET chain = zeroblob(32) WHERE id = 'paid'", "another chain hash"),
        ("UPDATE aether_runs SET chain = zeroblob(3) WHERE id = 'paid'", "row cannot be read"),
        ("UPDATE aether_runs SET status = 'completed' WHERE id = 'waits'", "its row says `completed`"),
        ("UPDATE aether_runs SET status = 'running' WHERE id = 'paid'", "its row says `running`"),
        ("UPDATE aether_runs SET status = 'cancelled' WHERE id = 'renewed'", "its row says `cancelled`"),
        ("UPDATE aether_runs SET status = 'bogus' WHERE id IN ('paid', 'waits')", "row cannot be read"),
        ("UPDATE aether_runs SET workflow = 'other' WHERE id = 'paid'", "its workflow is \"other\""),
        ("UPDATE aether_runs SET version = 9 WHERE id = 'renewed'", "its version is 9"),
        ("UPDATE aether_runs SET labels = NULL WHERE id = 'forked'", "its set of labels"),
        ("UPDATE aether_runs SET parent = 'waits' WHERE id = 'paid'", "its parent is"),
        ("DELETE FROM aether_ledger WHERE key LIKE 'aether:paid:%'", "the ledger has no row of it"),
        ("DELETE FROM aether_ledger WHERE key LIKE 'aether:renewed:c1.%'", "the ledger has no row of it"),
        ("UPDATE aether_ledger SET key = key || 'x' WHERE key LIKE 'aether:paid:%'", "ledger"),
        ("UPDATE aether_ledger SET tool = 'other' WHERE key LIKE 'aether:%'", "is of tool \"other\""),
        (
            "UPDATE aether_ledger SET digest = '00' WHERE key LIKE 'aether:paid:%'",
            "is of arguments with digest 00",
        ),
        ("UPDATE aether_ledger SET status = 'failed' WHERE key LIKE 'aether:paid:%'", "is `failed`"),
        ("UPDATE aether_ledger SET status = 'bogus' WHERE key LIKE 'aether:paid:%'", "ledger status"),
        ("UPDATE aether_ledger SET committed = 0 WHERE key LIKE 'aether:paid:%'", "says that this is open"),
        ("UPDATE aether_ledger SET result = '7' WHERE key LIKE 'aether:paid:%'", "another result"),
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
        assert_eq!(report.runs, 4, "{change} hides the others: {report}");
        assert!(report.problems.iter().all(|problem| problem.reason.contains(says)), "{change}: {report}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_file_is_found_whatever_the_journals_say() {
    let place = Place::sqlite();
    filled(&place).await.shutdown().await.unwrap();
    assert_eq!(place.store.damage().await.unwrap(), Vec::<String>::new());
    let changes = [
        ("DELETE FROM aether_runs WHERE id = 'paid'", "aether_journal has"),
        ("DELETE FROM aether_runs WHERE id = 'waits'", "aether_waits has"),
        (
            "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'aether_ledger_business'; \
             PRAGMA writable_schema = OFF",
            "never used",
        ),
    ];
    for (change, says) in changes {
        let found =
            damaged(&place.file(), |copy| Connection::open(copy).unwrap().execute_batch(change).unwrap())
                .await;
        assert!(found.iter().any(|problem| problem.contains(says)), "{change}: {found:?}");
    }
    for name in
        ["aether_ledger", "aether_inbox", "aether_streams", "aether_ledger_business", "aether_runs_status"]
    {
        let found = damaged(&place.file(), |copy| overwrite(copy, name)).await;
        assert!(!found.is_empty(), "{name}");
    }
}

/// What is wrong with a copy of the file after this change.
async fn damaged(file: &std::path::Path, change: impl FnOnce(&std::path::Path)) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    aether::sqlite::back_up(file, &copy, |_| ()).unwrap();
    change(&copy);
    aether::sqlite::SqliteStore::open(&copy).unwrap().damage().await.unwrap()
}

/// Overwrites the first page of a table or an index.
fn overwrite(file: &std::path::Path, name: &str) {
    use std::os::unix::fs::FileExt as _;
    let conn = Connection::open(file).unwrap();
    let number = |sql: &str, named: &[&str]| {
        conn.query_row(sql, aether::sqlite::rusqlite::params_from_iter(named), |row| row.get::<_, u32>(0))
            .unwrap()
    };
    let size = number("PRAGMA page_size", &[]);
    let page = number("SELECT rootpage FROM sqlite_schema WHERE name = ?1", &[name]);
    drop(conn);
    let junk = vec![0xa5; size as usize];
    std::fs::File::options()
        .write(true)
        .open(file)
        .unwrap()
        .write_all_at(&junk, u64::from(page - 1) * u64::from(size))
        .unwrap();
}

/// Encodes nothing of note, and appends to the run whenever something of it is decoded.
#[derive(Debug)]
struct Restless {
    inner: Arc<MemoryStore>,
    next: AtomicU64,
}

impl PayloadCodec for Restless {
    fn encode(&self, plain: &[u8], _: &PayloadPlace<'_>) -> Result<Option<EncodedPayload>, CodecError> {
        Ok(Some(EncodedPayload { key: "none".into(), bytes: plain.into() }))
    }

    fn decode(&self, encoded: &EncodedPayload, _: &PayloadPlace<'_>) -> Result<Vec<u8>, CodecError> {
        let expected = self.next.fetch_add(1, Ordering::SeqCst);
        assert!(expected < 100, "it is read again for ever");
        let (ack, _reply) = Ack::awaited(run_id("busy"), expected + 1, Arc::default());
        self.inner.append(Append {
            run: run_id("busy"),
            epoch: 1,
            expected,
            at: jiff::Timestamp::UNIX_EPOCH,
            frame: Frame { text: r#"[{"moon_landed":{}}]"#.into(), count: 1 },
            acquire: None,
            ledger: Vec::new(),
            status: None,
            consumed: Vec::new(),
            waits: Vec::new(),
            code: None,
            work: None,
            unless_asked_to_end: false,
            renews: None,
            streams: Vec::new(),
            ack,
        });
        Ok(encoded.bytes.clone())
    }

    fn keyed_digest(&self, _: &[u8]) -> Result<Option<[u8; 32]>, CodecError> {
        Ok(None)
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_run_that_never_stands_still_is_found() {
    for is_wrong in [false, true] {
        let inner = Arc::new(MemoryStore::new());
        let codec = Restless { inner: inner.clone(), next: AtomicU64::new(1) };
        let store: Arc<dyn Store> = Arc::new(CodedStore::new(inner.clone(), Some(Arc::new(codec))));
        let hand = Hand::begin(&store, "busy", "anything", "1").await;
        if is_wrong {
            let started = Event::from(ToolInvocationStarted {
                command: CommandId::new("0", "pay"),
                invocation: InvocationId::new(&CommandId::new("0", "pay"), 0),
                tool: "pay".into(),
                attempt: 0,
                key: IdempotencyKey::new(&hand.run, &CommandId::new("0", "pay"), 0),
                reserved: None,
            });
            let digest = aether_core::payload::Digest::of(&Payload::null()).unwrap();
            let node = NodeStarted {
                command: CommandId::new("0", "pay"),
                class: EffectClass::Tool,
                digest,
                input: None,
                path: None,
                site: None,
                constraints: Default::default(),
            };
            let journal = Journal { run: "busy".into(), events: vec![node.into(), started.clone()] };
            inner.put_entry(journal.acquire(&started).unwrap().entry);
        }
        let report = checked(&*store).await;
        let found: Vec<_> = report.problems.iter().map(|problem| problem.reason.as_str()).collect();
        assert_eq!(found.len(), usize::from(is_wrong), "{report}");
        assert!(found.iter().all(|reason| reason.contains("is not in the history")), "{report}");
        assert!(inner.load(&hand.run, 0).await.unwrap().len() > 2, "it does not move");
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
    let changes: [(&str, Change); 39] = [
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
        ("another end", |file| file["status"] = "cancelled".into()),
        ("no status", |file| file["status"] = "done".into()),
        ("the version", |file| file["workflow_version"] = 99.into()),
        ("the run's id", |file| file["run"] = "other".into()),
        ("the labels", |file| file["labels"]["customer"] = "evil".into()),
        ("a parent", |file| file["parent"] = "other".into()),
        ("the time of its creation", |file| file["created_at"] = "2020-01-01T00:00:00Z".into()),
        ("a ledger row's arguments", |file| file["ledger"][0]["digest"] = "00".into()),
        ("a ledger row's key", |file| file["ledger"][0]["key"] = "aether:paid:1:ev_pay:9".into()),
        ("a ledger row's invocation", |file| file["ledger"][0]["invocation"] = "1:ev_pay#9".into()),
        ("a ledger row's command", |file| file["ledger"][0]["command"] = "9:ev_pay".into()),
        ("a ledger row's tool", |file| file["ledger"][0]["tool"] = "other".into()),
        ("a ledger row's status", |file| file["ledger"][0]["status"] = "failed".into()),
        ("a ledger row that only began", |file| file["ledger"][0]["status"] = "started".into()),
        ("a ledger row of no status", |file| file["ledger"][0]["status"] = "done".into()),
        ("a ledger row that is open", |file| file["ledger"][0]["committed"] = false.into()),
        ("a ledger row's result", |file| file["ledger"][0]["result"] = "other".into()),
        ("no result", |file| drop(file["ledger"][0].as_object_mut().unwrap().remove("result"))),
        ("an error", |file| file["ledger"][0]["error"] = "other".into()),
        ("no ledger", |file| file["ledger"] = Value::Array(Vec::new())),
        ("a row twice", |file| {
            let row = file["ledger"][0].clone();
            file["ledger"].as_array_mut().unwrap().push(row);
        }),
        ("another text", |file| {
            let last = file["frames"].as_array_mut().unwrap().last_mut().unwrap();
            last["decoded"] = last["text"].clone();
        }),
        ("another decision", |file| {
            let frames = file["frames"].as_array_mut().unwrap();
            let decided =
                frames.iter_mut().find(|frame| frame["text"].as_str().unwrap().contains("\"ann\"")).unwrap();
            decided["decoded"] = decided["text"].as_str().unwrap().replace("\"ann\"", "\"cfo\"").into();
            file["decisions"][0]["actor"] = "cfo".into();
        }),
        ("a claim", |file| file["frames"][1]["decoded"] = "[]".into()),
        ("a value more", |file| {
            let name = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4fbb9807afee48bb";
            file["values"][name] = serde_json::json!({ "text": "a" });
        }),
        ("no values", |file| file["values"] = serde_json::json!({})),
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

#[tokio::test]
async fn what_a_text_beside_a_plain_frame_says_is_not_used() {
    let place = Place::sqlite();
    let engine = filled(&place).await;
    let text = engine.evidence(&run_id("paid"), "auditor").await.unwrap().to_text().unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    for frame in file["frames"].as_array_mut().unwrap() {
        frame["decoded"] = frame["text"].as_str().unwrap().replace("\"ann\"", "\"cfo\"").into();
    }
    let report = Evidence::parse(&file.to_string()).unwrap().verify();
    let honest = Evidence::parse(&text).unwrap().verify();
    assert!(!report.is_sound() && honest.is_sound(), "{report}\n{honest}");
    assert_eq!((&report.decisions, &report.tip, report.encoded), (&honest.decisions, &honest.tip, 0));
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_is_taken_from_encoded_frames_is_marked_as_claimed() {
    let place = Place::encrypted();
    let engine = filled(&place).await;
    let text = engine.evidence(&run_id("paid"), "auditor").await.unwrap().to_text().unwrap();
    let verified = |file: &Value| Evidence::parse(&file.to_string()).unwrap().verify();
    let changed = |change: Change| {
        let mut file: Value = serde_json::from_str(&text).unwrap();
        change(&mut file);
        assert_ne!(file, serde_json::from_str::<Value>(&text).unwrap());
        verified(&file)
    };
    let honest = verified(&serde_json::from_str(&text).unwrap());
    assert!(honest.is_sound() && honest.encoded > 0, "{honest}");
    assert!(
        !honest.decisions.is_empty() && honest.decisions.iter().all(|decision| decision.claimed),
        "{honest}"
    );
    // Nobody without the keys can see that this is not so: the report says that it is claimed.
    let forged = changed(|file| {
        let all = file.to_string().replace("\\\"ann\\\"", "\\\"cfo\\\"").replace("\"ann\"", "\"cfo\"");
        *file = serde_json::from_str(&all).unwrap();
    });
    assert!(forged.is_sound(), "{forged}");
    assert!(forged.decisions.iter().all(|decision| decision.actor == "cfo" && decision.claimed), "{forged}");
    assert!(
        forged.to_string().contains("by \"cfo\" for") && forged.to_string().contains(", as claimed"),
        "{forged}"
    );
    // What stands in the open is the history's.
    let changes: [Change; 4] = [
        |file| each_decoded(file, |text| text.replace("ev_pay", "ev_buy")),
        |file| each_decoded(file, |text| text.replace("side_effect_committed", "permanent_failure")),
        |file| each_decoded(file, |text| text.replace("acme", "evil")),
        |file| {
            for frame in file["frames"].as_array_mut().unwrap() {
                frame.as_object_mut().unwrap().remove("decoded");
            }
        },
    ];
    for change in changes {
        let report = changed(change);
        assert!(!report.is_sound(), "{report}");
    }
    engine.shutdown().await.unwrap();
}

fn each_decoded(file: &mut Value, change: fn(&str) -> String) {
    for frame in file["frames"].as_array_mut().unwrap() {
        if let Some(text) = frame["decoded"].as_str().map(change) {
            frame["decoded"] = text.into();
        }
    }
}

/// Send a mail, with consent.
#[step(effect = "tool", idempotent, approval = "required", retry(max_retries = 1, delay = "1ms"))]
async fn ev_mail(cx: &mut StepCx, to: String, words: String) -> Result<u32, Failure> {
    if cx.attempt() == 0 {
        return Err(Failure::retryable(format!("{to} is busy ({} letters)", words.len())));
    }
    Ok(cx.attempt())
}

/// Send one.
#[workflow]
async fn ev_letter(cx: &mut Cx, words: String) -> Result<u32> {
    ev_mail(cx, "ann@example.org".into(), words).await?;
    Ok(1)
}

#[tokio::test]
async fn an_approval_with_other_arguments_holds_and_names_their_digest() {
    for make in stores().into_iter().chain([Place::encrypted as fn() -> Place]) {
        // So large that the decision stands apart from the journal, too.
        for words in ["hi".to_owned(), "x".repeat(80_000)] {
            let place = make();
            let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
            let run = engine.start::<ev_letter>(words.clone()).id("letter").await.unwrap();
            in_time(until_waiting(&run)).await;
            let edited = serde_json::json!({ "to": "eve@example.org", "words": words });
            let wait = engine.pending(&run_id("letter")).await.unwrap().remove(0);
            engine.approve_with(&run_id("letter"), &wait, &edited, "ann").await.unwrap();
            in_time(run.end()).await.unwrap();
            let text = engine.evidence(&run_id("letter"), "auditor").await.unwrap().to_text().unwrap();
            let report = Evidence::parse(&text).unwrap().verify();
            assert!(report.is_sound(), "{report}");
            let rows = engine.ledger(&run_id("letter")).await.unwrap();
            assert!(rows.len() > 1 && rows.iter().all(|row| row.digest == rows[0].digest), "{rows:?}");
            let decided =
                report.decisions.iter().find(|decision| decision.kind == "approval_decided").unwrap();
            assert_eq!(decided.digest.as_deref(), Some(rows[0].digest.as_str()));
            let asked = text.matches(rows[0].digest.as_str()).count();
            assert_eq!(
                asked,
                rows.len() + 1,
                "it is in the rows and the decision, and the history has that of the original"
            );
            let checked = checked(&*place.store).await;
            assert!(checked.is_sound(), "{checked}");
            engine.shutdown().await.unwrap();
        }
    }
}

/// Open a door, with consent.
#[step(effect = "tool", approval = "required")]
async fn ev_unlock(cx: &mut StepCx, password: String) -> Result<String> {
    Calls::note(cx)?;
    Ok(password)
}

/// Open one.
#[workflow]
async fn ev_door(cx: &mut Cx, password: String) -> Result<usize> {
    Ok(ev_unlock(cx, password).await?.len())
}

#[tokio::test]
async fn an_imported_run_is_sound_whose_secrets_were_masked_and_whose_arguments_were_replaced() {
    for edit in [false, true] {
        let place = Place::memory();
        let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
        let run = engine.start::<ev_door>("swordfish-1".into()).id("door").await.unwrap();
        in_time(until_waiting(&run)).await;
        let wait = engine.pending(&run_id("door")).await.unwrap().remove(0);
        if edit {
            let edited = serde_json::json!({ "password": "swordfish-2" });
            engine.approve_with(&run_id("door"), &wait, &edited, "ann").await.unwrap();
        } else {
            engine.approve(&run_id("door"), &wait, "ann").await.unwrap();
        }
        run.result().await.unwrap();
        let recording = engine.export(&run_id("door")).await.unwrap();
        assert!(!recording.to_text().contains("swordfish"), "{}", recording.to_text());
        engine.shutdown().await.unwrap();
        let other = Place::sqlite();
        recording.import(&*other.store).await.unwrap();
        let report = checked(&*other.store).await;
        assert!(report.is_sound(), "{report}");
        let engine = builder(&other.store, &Calls::default()).start().await.unwrap();
        let report = engine.evidence(&run_id("door"), "auditor").await.unwrap().verify();
        assert!(report.is_sound(), "{report}");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn no_text_of_a_file_makes_a_line_of_its_own() {
    let place = Place::memory();
    let engine = filled(&place).await;
    let text = engine.evidence(&run_id("paid"), "auditor").await.unwrap().to_text().unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let forged = "all well\nhistory 00\r\u{1b}[2J";
    (file["replay"]["verdict"], file["status"], file["workflow"]) =
        (forged.into(), forged.into(), forged.into());
    let report = Evidence::parse(&file.to_string()).unwrap().verify();
    assert_eq!(report.to_string().lines().count(), report.lines().len());
    assert!(!report.to_string().contains('\u{1b}') && !report.is_sound(), "{report}");
    engine.shutdown().await.unwrap();
}

fn replace(text: &mut Value, old: &str, new: &str) {
    *text = text.as_str().unwrap().replace(old, new).into();
}
