//! What a hostile reviewer found in the code, each with the attack that showed it.

use std::sync::Arc;
use std::time::Duration;

use aether::engine::RunEnd;
use aether::error::Fault;
use aether::people::{Resolution, WaitFilter, Waiting};
use aether::prelude::*;
use aether::recording::Masking;
use aether::retention::{PurgeDecision, Retention};
use aether::sqlite::SqliteStore;
use aether::store::{Message, Store, StoreError};
use jiff::Timestamp;
use rusqlite::Connection;

use super::inputs::{Token, hostile, in_ask, in_handing_over, in_losing, serves_another, waits};
use crate::seeds::kit::{Place, in_time, json, run_id, stores};

/// Words that do not fit, put into the inbox by another program.
async fn forge(store: &Arc<dyn Store>, run: &str, topic: &str, payload: &str, count: u32) {
    for number in 0..count {
        let (id, topic) = (format!("forged {number}"), topic.to_owned());
        let message = Message { seq: 0, id, topic, payload: json(payload), at: Timestamp::now() };
        store.send(&run_id(run), message).await.unwrap();
    }
}

#[tokio::test]
async fn thousands_of_refused_words_do_not_overflow_the_stack() {
    let (place, token) = (Place::memory(), Token::default());
    let engine = hostile(&place, &token).start().await.unwrap();
    let run = engine.start::<in_losing>(()).id("losing").await.unwrap();
    let open = waits(&engine, "losing", Waiting::Resolution).await;
    let invocation = open.invocation.unwrap();
    let word = r#"{"resolution":{"happened":"no number"},"actor":"mallory"}"#;
    forge(&place.store, "losing", &format!("resolve:{invocation}"), word, 8_000).await;
    in_time(async {
        while !place.store.inbox(run.id(), 0).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let open = waits(&engine, "losing", Waiting::Resolution).await;
    assert_eq!(open.refused.len(), 16, "the newest ones");
    assert_eq!(open.refused[0].0, "mallory");
    engine.resolve(run.id(), &invocation, Resolution::Happened(json("3")), "ann").await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), 3);
    engine.verify(run.id()).await.unwrap();
}

#[tokio::test]
async fn a_masked_recording_gives_nobody_a_callback_token() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let engine = hostile(&place, &token).start().await.unwrap();
        let run = engine.start::<in_handing_over>(()).id("handing").await.unwrap();
        waits(&engine, "handing", Waiting::Callback).await;
        let genuine = token.get().await;
        // The token travels through a value, too.
        let told = engine.start::<in_telling>(format!("see {genuine}, please")).id("told").await.unwrap();
        in_time(told.result()).await.unwrap();

        let whole = engine.export_with(run.id(), &Masking::off()).await.unwrap().to_text();
        let seed =
            whole.split("\"seed\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
        let masked = engine.export(run.id()).await.unwrap();
        assert!(!masked.to_text().contains(&seed), "{}", masked.to_text());
        let told = engine.export(told.id()).await.unwrap();
        assert!(!told.to_text().contains(&genuine), "{}", told.to_text());

        // A copy of the run does not take the token of the original, and a second export is the same.
        let copy = hostile(&Place::memory(), &Token::default()).start().await.unwrap();
        copy.import(&masked).await.unwrap();
        assert_eq!(copy.export(run.id()).await.unwrap().to_text().matches("masked-").count(), 1);
        assert!(copy.complete_callback(&genuine, &3).await.is_err());
        engine.complete_callback(&genuine, &3).await.unwrap();
        assert_eq!(in_time(run.result()).await.unwrap(), 3);
    }
}

/// Says it again.
#[workflow]
async fn in_telling(cx: &mut Cx, text: String) -> Result<String> {
    cx.now().await;
    Ok(text)
}

#[tokio::test]
async fn a_hook_that_panics_keeps_its_run_and_purging_goes_on() {
    for place in stores() {
        let (place, token) = (place(), Token::default());
        let engine = hostile(&place, &token).start().await.unwrap();
        for id in ["good", "bad"] {
            in_time(engine.start::<in_telling>(id.into()).id(id).await.unwrap().result()).await.unwrap();
        }
        let retention = Retention::new().completed(Duration::ZERO).before_purge(|run| async move {
            assert!(run.record().id.as_str() != "bad", "the hook does not like it");
            PurgeDecision::Delete
        });
        let report = in_time(async {
            loop {
                let report = engine.purge(&retention).await.unwrap();
                if report.deleted > 0 {
                    return report;
                }
            }
        })
        .await;
        assert_eq!((report.deleted, report.kept), (1, 1));
        assert!(engine.view(&run_id("bad")).await.is_ok() && engine.view(&run_id("good")).await.is_err());
    }
}

/// Refers to a table of the store from one of its own.
#[step(effect = "transaction")]
async fn in_refer(cx: &mut StepCx) -> Result<()> {
    cx.sql(|db| {
        db.execute_batch(
            "CREATE TABLE links(run INTEGER REFERENCES aether_runs(no)); INSERT INTO links SELECT no FROM aether_runs",
        )
    })?;
    Ok(())
}

#[workflow]
async fn in_referring(cx: &mut Cx) -> Result<()> {
    Ok(in_refer(cx).await?)
}

#[tokio::test]
async fn a_foreign_key_of_a_step_holds_no_purge_up() {
    let (place, token) = (Place::sqlite(), Token::default());
    let engine = hostile(&place, &token).start().await.unwrap();
    let run = engine.start::<in_referring>(()).id("referring").await.unwrap();
    in_time(run.result()).await.unwrap();
    let retention = Retention::new().completed(Duration::ZERO);
    in_time(async { while engine.purge(&retention).await.unwrap().deleted == 0 {} }).await;
    assert!(engine.view(run.id()).await.is_err());
    serves_another(&engine).await;
}

fn corrupt(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. })
}

#[tokio::test]
async fn rows_that_are_not_text_are_damage_of_their_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let place = Place::memory();
    let token = Token::default();
    let on_file = || {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
        hostile(&place, &token).store(store)
    };
    let engine = on_file().start().await.unwrap();
    for id in ["journal", "inbox", "healthy"] {
        engine.start::<in_ask>(()).id(id).await.unwrap();
        waits(&engine, id, Waiting::Question).await;
    }
    engine.signal(&run_id("inbox"), "later", "1", &1).await.unwrap();
    engine.shutdown().await.unwrap();

    let db = Connection::open(&path).unwrap();
    let no = "(SELECT no FROM aether_runs WHERE id = ?1)";
    let spoil = |sql: String, run: &str| assert!(db.execute(&sql, [run]).unwrap() > 0, "{sql}");
    spoil(
        format!(
            "UPDATE aether_journal SET events = CAST(x'5bff00fe5d' AS TEXT) WHERE run_no = {no} AND position > 0"
        ),
        "journal",
    );
    let deep = "'[' || replace(hex(zeroblob(50000)), '00', '[[') || '1'";
    spoil(format!("UPDATE aether_inbox SET payload = {deep} WHERE run_no = {no}"), "inbox");
    let engine = on_file().start().await.unwrap();
    let open = engine.all_pending(WaitFilter::default()).await.unwrap().waits;
    let runs: Vec<_> = open.iter().map(|open| open.run.as_str()).collect();
    // The list needs no journal.
    assert!(runs.contains(&"healthy") && runs.contains(&"journal"), "{runs:?}");
    assert!(engine.view(&run_id("journal")).await.is_err_and(|error| corrupt(&error)));
    assert!(engine.pending(&run_id("journal")).await.is_err_and(|error| corrupt(&error)));
    assert!(engine.export(&run_id("journal")).await.is_err());
    for id in ["journal", "inbox"] {
        let run = engine.find(id).await.unwrap();
        in_time(async {
            while !run.advance().await.unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let end = in_time(run.end()).await.unwrap();
        let RunEnd::Stopped(fault) = end else { panic!("{id}: {end:?}") };
        assert!(
            matches!(&fault, Fault::Store(error) if corrupt(error))
                || matches!(&fault, Fault::Journal { .. })
        );
        assert!(fault.to_string().len() < 2_000, "{fault}");
    }
    let open = waits(&engine, "healthy", Waiting::Question).await;
    engine.answer(&open.run, &open.command, &3, "ann").await.unwrap();
    let healthy = engine.handle::<in_ask>("healthy").await.unwrap();
    assert_eq!(in_time(healthy.result()).await.unwrap(), 3);
    serves_another(&engine).await;
}
