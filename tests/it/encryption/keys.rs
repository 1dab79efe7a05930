//! Keys come, change and go under runs that are open; codecs fail and panic; what is altered or moved is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use aether::StepError;
use aether::encryption::{CodecError, EncodedPayload, Encryption, Keys, PayloadCodec, PayloadPlace};
use aether::error::{Fault, RunError};
use aether::id::RunId;
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::sqlite::rusqlite::Connection;
use aether::store::{Store, StoreError};

use super::{key, ring, say};
use crate::seeds::kit::{Calls, Place, builder, in_time, run_id, stores};

/// Bill somebody, once in a run.
#[step(effect = "tool", irreversible, key = |who| who)]
async fn key_bill(cx: &mut StepCx, who: String) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("billed {who}"))
}

/// Bill an order, once in the store.
#[step(effect = "tool", irreversible, scope = "store", key = |order| order)]
async fn key_bill_order(cx: &mut StepCx, order: String) -> Result<String> {
    Calls::note(cx)?;
    Ok(format!("billed {order}"))
}

fn told(result: std::result::Result<String, StepError>) -> String {
    match result {
        Ok(value) => value,
        Err(StepError::Taken(_)) => "taken".to_owned(),
        Err(other) => other.to_string(),
    }
}

/// Bills in rounds, one for each word, and each order once.
#[workflow]
async fn key_rounds(cx: &mut Cx, input: String) -> Result<Vec<String>> {
    let mut seen = vec![input];
    for round in 0..4 {
        let word: String = cx.signal("word").await?;
        seen.push(word);
        seen.push(told(key_bill(cx, "ann".to_owned()).await));
        seen.push(told(key_bill(cx, format!("bob {round}")).await));
        seen.push(told(key_bill_order(cx, "order 1".to_owned()).await));
        let large: String = key_large(cx, round).await?;
        seen.push(large.len().to_string());
    }
    Ok(seen)
}

/// Much.
#[step(effect = "read")]
async fn key_large(cx: &mut StepCx, round: usize) -> Result<String> {
    let _cx = cx;
    Ok(format!("{round}").repeat(70_000))
}

/// Waits until the run has so many words, and is suspended.
async fn took(engine: &Engine, run: &RunId, words: usize) {
    in_time(async {
        loop {
            let view = engine.view(run).await.unwrap();
            let taken = view.steps.iter().filter(|step| step.command.name() == "key_large").count();
            if taken == words && engine.pending(run).await.unwrap().iter().any(|wait| wait.name == "word") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_codec_is_turned_on_rotated_and_turned_off_under_open_runs() {
    for make in stores() {
        let (place, calls) = (make(), Calls::default());
        let codecs: [Option<Encryption>; 4] = [
            None,
            Some(Encryption::new(ring(1))),
            Some(Encryption::new(ring(2).and_old("key 1", key(1)))),
            Some(Encryption::new(ring(2).and_old("key 1", key(1))).reading_only()),
        ];
        let id = run_id("rounds");
        for (round, codec) in codecs.into_iter().enumerate() {
            let store = place.again();
            let mut engine = builder(&store, &calls);
            if let Some(codec) = codec {
                engine = engine.payload_codec(codec);
            }
            let engine = engine.start().await.unwrap();
            // The same start again, whatever the keys are.
            let run = engine.start::<key_rounds>("begin".to_owned()).id("rounds").await.unwrap();
            let other = engine.start::<key_rounds>("another".to_owned()).id("rounds").await;
            assert!(other.is_err(), "another input is the same start in round {round}");
            took(&engine, &id, round).await;
            if round < 3 {
                // One is read by this engine, the next one waits for the next engine.
                say(&engine, &id, "word", &format!("word {round}")).await.unwrap();
                took(&engine, &id, round + 1).await;
            } else {
                say(&engine, &id, "word", &"last").await.unwrap();
                let result = in_time(run.result()).await.unwrap();
                let mut expected = vec!["begin".to_owned()];
                for round in 0..4 {
                    expected.push(if round == 3 { "last".to_owned() } else { format!("word {round}") });
                    expected.push(if round == 0 { "billed ann".into() } else { "taken".to_owned() });
                    expected.push(format!("billed bob {round}"));
                    expected.push(if round == 0 { "billed order 1".into() } else { "taken".to_owned() });
                    expected.push("70000".to_owned());
                }
                assert_eq!(result, expected);
                // Another run asks for the store-wide key, under every key that there was.
                let again = engine.start::<key_rounds>("other".to_owned()).id("other").await.unwrap();
                say(&engine, again.id(), "word", &"x").await.unwrap();
                took(&engine, again.id(), 1).await;
            }
            engine.shutdown().await.unwrap();
        }
        assert_eq!(
            calls.of("key_bill"),
            7,
            "ann once, bob four times, and the other run's two: {:?}",
            calls.keys("key_bill")
        );
        assert_eq!(calls.of("key_bill_order"), 1, "{:?}", calls.keys("key_bill_order"));
    }
}

/// Nothing but the engine reads the run here: what a view or another start reads must not be what makes it right.
#[tokio::test]
async fn a_key_that_was_taken_in_the_open_is_taken_for_an_engine_that_only_resumes() {
    for make in stores() {
        let (place, calls) = (make(), Calls::default());
        let (store, id) = (place.again(), run_id("rounds"));
        let engine = builder(&store, &calls).start().await.unwrap();
        engine.start::<key_rounds>("begin".to_owned()).id("rounds").await.unwrap();
        say(&engine, &id, "word", &"one").await.unwrap();
        took(&engine, &id, 1).await;
        engine.shutdown().await.unwrap();
        let store = place.again();
        let engine = builder(&store, &calls).payload_codec(Encryption::new(ring(1))).start().await.unwrap();
        for word in ["two", "three", "four"] {
            say(&engine, &id, "word", &word).await.unwrap();
        }
        let run = engine.handle::<key_rounds>("rounds").await.unwrap();
        let seen = in_time(run.result()).await.unwrap();
        assert_eq!(seen.iter().filter(|told| *told == "taken").count(), 6, "{seen:?}");
        assert_eq!(
            (calls.of("key_bill"), calls.of("key_bill_order")),
            (5, 1),
            "{:?}",
            calls.keys("key_bill")
        );
        engine.shutdown().await.unwrap();
    }
}

fn codec_error<T: std::fmt::Debug>(result: std::result::Result<T, StoreError>) -> CodecError {
    match result {
        Err(StoreError::Codec { run: Some(_), error, .. }) => error,
        other => panic!("no error of the codec: {other:?}"),
    }
}

#[tokio::test]
async fn without_its_key_a_run_is_a_typed_error_and_nothing_of_it_is_lost() {
    for make in stores() {
        let (place, calls) = (make(), Calls::default());
        let store = place.again();
        let engine = builder(&store, &calls).payload_codec(Encryption::new(ring(1))).start().await.unwrap();
        let run = engine.start::<key_rounds>("begin".to_owned()).id("rounds").await.unwrap();
        let id = run.id().clone();
        took(&engine, &id, 0).await;
        say(&engine, &id, "word", &"one").await.unwrap();
        took(&engine, &id, 1).await;
        drop(run);
        engine.shutdown().await.unwrap();

        let unknown = CodecError::UnknownKey { key: "key 1".into() };
        let none = CodecError::NoCodec { key: "key 1".into() };
        for (codec, expected) in [(None, none), (Some(Encryption::new(ring(9))), unknown)] {
            let store = place.again();
            let mut lacking = builder(&store, &calls);
            if let Some(codec) = codec {
                lacking = lacking.payload_codec(codec);
            }
            let engine = lacking.start().await.unwrap();
            assert_eq!(codec_error(engine.view(&id).await), expected);
            assert_eq!(codec_error(engine.ledger(&id).await), expected);
            assert_eq!(codec_error(engine.pending(&id).await), expected);
            let exported = engine.export(&id).await.unwrap_err().to_string();
            assert!(exported.contains("key 1") && exported.contains("`rounds`"), "{exported}");
            assert_eq!(engine.runs(Default::default()).await.unwrap().len(), 1);
            let said = say(&engine, &id, "word", &"lost?").await;
            if matches!(expected, CodecError::NoCodec { .. }) {
                // It would stand in the open.
                assert!(said.unwrap_err().to_string().contains("no payload codec is set"));
                engine.shutdown().await.unwrap();
                continue;
            }
            // A word that comes meanwhile makes the run due, and it stops with the error.
            said.unwrap();
            let handle = engine.handle::<key_rounds>("rounds").await.unwrap();
            match in_time(handle.result()).await.unwrap_err() {
                RunError::Stopped { fault, .. } => match *fault {
                    Fault::Store(StoreError::Codec { error, .. }) => assert_eq!(error, expected),
                    other => panic!("{other}"),
                },
                other => panic!("{other}"),
            }
            // To cancel it needs what it has done: that waits for the key.
            drop(handle);
            engine.shutdown().await.unwrap();
        }

        // The structure stands in the open, in the store itself.
        let frames = place.store.load(&id, 0).await.unwrap();
        let text: String = frames.iter().map(|frame| frame.text.as_str()).collect();
        assert!(text.contains("\"command\":\"") && text.contains("command_committed"), "{text}");
        assert!(frames[0].events().unwrap_err().to_string().contains("key 1"));

        let store = place.again();
        let keys = ring(2).and_old("key 1", key(1)).and_old("key 9", key(9));
        let engine = builder(&store, &calls).payload_codec(Encryption::new(keys)).start().await.unwrap();
        let now = engine.handle::<key_rounds>("rounds").await.unwrap();
        // A word came while nobody could read the run, under another key.
        say(&engine, &id, "word", &"more").await.unwrap();
        say(&engine, &id, "word", &"last").await.unwrap();
        let result = in_time(now.result()).await.unwrap();
        assert_eq!([&result[6], &result[11], &result[16]], ["lost?", "more", "last"]);
        engine.shutdown().await.unwrap();
    }
}

/// Encodes nothing secretly, and fails or panics when it is told to.
#[derive(Debug, Default)]
struct Moody {
    mood: Arc<AtomicU8>,
}

impl Moody {
    fn answer<T>(&self, value: T) -> std::result::Result<T, CodecError> {
        match self.mood.load(Ordering::SeqCst) {
            0 => Ok(value),
            1 => Err(CodecError::Failed { reason: "in a mood".into() }),
            _ => panic!("in a rage"),
        }
    }
}

impl PayloadCodec for Moody {
    fn encode(
        &self,
        plain: &[u8],
        _: &PayloadPlace<'_>,
    ) -> std::result::Result<Option<EncodedPayload>, CodecError> {
        self.answer(Some(EncodedPayload { key: "mood".into(), bytes: plain.to_vec() }))
    }

    fn decode(
        &self,
        encoded: &EncodedPayload,
        _: &PayloadPlace<'_>,
    ) -> std::result::Result<Vec<u8>, CodecError> {
        self.answer(encoded.bytes.clone())
    }

    fn keyed_digest(&self, _: &[u8]) -> std::result::Result<Option<[u8; 32]>, CodecError> {
        self.answer(None)
    }
}

#[tokio::test]
async fn a_codec_that_fails_or_panics_harms_one_run_and_loses_nothing() {
    for mood in [1, 2] {
        let (place, calls, codec) = (Place::sqlite(), Calls::default(), Moody::default());
        let switch = Arc::clone(&codec.mood);
        let engine = builder(&place.store, &calls).payload_codec(codec).start().await.unwrap();
        let run = engine.start::<key_rounds>("begin".to_owned()).id("rounds").await.unwrap();
        let id = run.id().clone();
        took(&engine, &id, 0).await;
        switch.store(mood, Ordering::SeqCst);
        let refused = say(&engine, &id, "word", &"x").await.unwrap_err().to_string();
        assert!(refused.contains(if mood == 1 { "in a mood" } else { "in a rage" }), "{refused}");
        assert!(engine.view(&id).await.is_err());
        let not_started = engine.start::<key_rounds>("begin".to_owned()).id("second").await;
        assert!(not_started.is_err());
        switch.store(0, Ordering::SeqCst);
        for _ in 0..4 {
            say(&engine, &id, "word", &"x").await.unwrap();
        }
        assert_eq!(in_time(run.result()).await.unwrap().len(), 21);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_altered_or_moved_in_the_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.db");
    let calls = Calls::default();
    let start = async || {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&file).unwrap());
        builder(&store, &calls).payload_codec(Encryption::new(ring(1))).start().await.unwrap()
    };
    let engine = start().await;
    for run in ["one", "two"] {
        engine.start::<key_rounds>(run.to_owned()).id(run).await.unwrap();
        took(&engine, &run_id(run), 0).await;
        say(&engine, &run_id(run), "unread", &run).await.unwrap();
    }
    engine.shutdown().await.unwrap();

    let database = Connection::open(&file).unwrap();
    // A message of one run is put into the inbox of the other.
    let moved = database
        .execute(
            "UPDATE aether_inbox SET payload = (SELECT payload FROM aether_inbox AS other WHERE other.topic = aether_inbox.topic
             AND other.run_no <> aether_inbox.run_no LIMIT 1)",
            [],
        )
        .unwrap();
    assert_eq!(moved, 2);
    drop(database);
    let engine = start().await;
    let one = engine.handle::<key_rounds>("one").await.unwrap();
    let _due = say(&engine, &run_id("one"), "word", &"x").await.unwrap();
    let error = in_time(one.result()).await.unwrap_err().to_string();
    drop(one);
    assert!(error.contains("altered, or belongs to another run"), "{error}");
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn forks_and_recordings_are_made_of_encrypted_runs_and_are_encrypted_themselves() {
    let (place, calls) = (Place::sqlite(), Calls::default());
    let engine = builder(&place.store, &calls).payload_codec(Encryption::new(ring(1))).start().await.unwrap();
    let run = engine.start::<key_rounds>("begin".to_owned()).id("rounds").await.unwrap();
    for _ in 0..4 {
        say(&engine, run.id(), "word", &"x").await.unwrap();
    }
    let result = in_time(run.result()).await.unwrap();
    let fork = engine.fork(run.id()).at_end().plan().await.unwrap().start("ann").await.unwrap();
    took_fork(&engine, fork.id()).await;
    let text = |frames: Vec<aether::store::journal::StoredFrame>| -> String {
        frames.into_iter().map(|frame| frame.text).collect()
    };
    for id in [run.id(), fork.id()] {
        let text = text(place.store.load(id, 0).await.unwrap());
        assert!(text.contains("\"encoded\":{\"key\":\"key 1\"") && !text.contains("billed ann"), "{text}");
    }
    let recording = engine.export(run.id()).await.unwrap();
    assert!(format!("{recording:?}").contains("billed ann"), "a recording is for people");

    let (other, none) = (Place::memory(), Calls::default());
    let second = builder(&other.store, &none).payload_codec(Encryption::new(ring(3))).start().await.unwrap();
    second.import(&recording).await.unwrap();
    let imported = second.handle::<key_rounds>("rounds").await.unwrap();
    assert_eq!(in_time(imported.result()).await.unwrap(), result);
    assert!(text(other.store.load(run.id(), 0).await.unwrap()).contains("\"key\":\"key 3\""));
    second.verify(run.id()).await.unwrap();
    assert_eq!(none.all(), 0);
    second.shutdown().await.unwrap();
    engine.shutdown().await.unwrap();
}

async fn took_fork(engine: &Engine, run: &RunId) {
    in_time(async {
        while !engine.view(run).await.unwrap().status.is_terminal() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[test]
fn a_ring_shows_no_key() {
    let keys: Keys = ring(1).and_old("old", key(2));
    let shown = format!("{keys:?} {:?}", Encryption::new(keys.clone()));
    assert!(shown.contains("key 1") && shown.contains("old"), "{shown}");
    assert!(!shown.contains(&key(1).to_base64()) && !shown.contains("1, 1, 1"), "{shown}");
}
