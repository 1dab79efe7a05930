//! Whose key a value gets, and to what it is bound.

use futures_util::FutureExt as _;

use super::*;
use crate::codec::runs::is_asked_end;
use crate::codec::seal::Seal;
use crate::journal::event::{Event, RunCancelled, RunCreated, RunTerminated, Uncompensated};
use crate::journal::frame::{CHAIN_START, Frame};
use crate::store::append::END_REQUESTS;
use crate::store::memory::MemoryStore;
use crate::store::schedules::{ScheduleSpec, Tick, TickOutcome};
use crate::vocabulary::codec::{CodecError, EncodedPayload, PayloadCodec, PayloadPlace};
use crate::vocabulary::payload::Digest;

/// Encodes with the key that the label `who` names, and binds to the place. What is wrong is wrong with all keys of people.
#[derive(Debug, Default)]
struct Bound {
    wrong: Option<CodecError>,
}

impl Bound {
    fn check(&self, key: &str) -> Result<(), CodecError> {
        match &self.wrong {
            Some(error) if key != "ring" => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl PayloadCodec for Bound {
    fn encode(&self, plain: &[u8], place: &PayloadPlace<'_>) -> Result<Option<EncodedPayload>, CodecError> {
        let key = place.labels.and_then(|labels| labels.get("who")).unwrap_or("ring").to_owned();
        self.check(&key)?;
        let bytes = [&*place.associated_data(), plain].concat();
        Ok(Some(EncodedPayload { key, bytes }))
    }

    fn decode(&self, encoded: &EncodedPayload, place: &PayloadPlace<'_>) -> Result<Vec<u8>, CodecError> {
        self.check(&encoded.key)?;
        let plain = encoded.bytes.strip_prefix(&*place.associated_data());
        plain.map(<[u8]>::to_vec).ok_or_else(|| CodecError::Altered { key: encoded.key.clone() })
    }

    fn keyed_digest(&self, _: &[u8]) -> Result<Option<[u8; 32]>, CodecError> {
        Ok(None)
    }

    fn needs_labels(&self) -> bool {
        true
    }
}

fn now<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("the memory store answers at once")
}

fn destroyed() -> CodecError {
    CodecError::DestroyedKey { key: "ann".into() }
}

fn over(inner: &Arc<MemoryStore>, wrong: Option<CodecError>) -> CodedStore {
    CodedStore::new(Arc::clone(inner) as Arc<dyn Store>, Some(Arc::new(Bound { wrong })))
}

fn run() -> RunId {
    RunId::new("run").unwrap()
}

fn of(who: &str) -> Labels {
    Labels::default().with("who", who).unwrap()
}

fn new_run(labels: Labels) -> NewRun {
    let digest = Digest::of(&Payload::null()).unwrap();
    let created = RunCreated {
        workflow: "flow".into(),
        module: String::new(),
        version: 1,
        fingerprint: String::new(),
        input: Payload::null(),
        digest: digest.clone(),
        seed: String::new(),
        parent: None,
        labels: labels.clone(),
        forked_from: None,
        terms: Default::default(),
    };
    NewRun {
        id: run(),
        workflow: "flow".into(),
        version: 1,
        code: CodeId::default(),
        digest,
        parent: None,
        labels,
        traceparent: None,
        frame: Frame::encode(&[created.into()]).unwrap(),
        at: Timestamp::UNIX_EPOCH,
        owner: None,
        parent_epoch: None,
        terms: Default::default(),
    }
}

fn message(id: &str, topic: &str) -> Message {
    let payload = Payload::encode(&"said").unwrap();
    Message { seq: 0, id: id.into(), topic: topic.into(), payload, at: Timestamp::UNIX_EPOCH }
}

fn cancelled(uncompensated: Vec<Uncompensated>) -> Event {
    RunCancelled { reason: "because".into(), actor: "ann".into(), uncompensated, expired_at: None }.into()
}

fn frame(event: Event) -> Frame {
    Frame::encode(&[event]).unwrap()
}

#[test]
fn an_event_is_not_read_as_one_of_another_kind() {
    let seal = Seal(Some(Arc::new(Bound::default())));
    let mut frame = frame(cancelled(Vec::new()));
    seal.seal_frame(&mut frame, &run(), None, 3).unwrap();
    assert!(!frame.text.contains("because"), "{}", frame.text);
    let read = |text: String| {
        let mut stored = [StoredFrame {
            position: 3,
            at: Timestamp::UNIX_EPOCH,
            epoch: 1,
            text,
            chain: CHAIN_START,
            decoded: None,
        }];
        seal.open_frames(&mut stored, &run()).map(|()| stored[0].decoded.clone().unwrap_or_default())
    };
    let altered = frame.text.replace("run_cancelled", "run_terminated");
    assert_ne!(altered, frame.text);
    assert!(read(frame.text).unwrap().contains("because"));
    let refused = read(altered);
    assert!(
        matches!(&refused, Err(StoreError::Codec { error: CodecError::Altered { .. }, .. })),
        "{refused:?}"
    );
}

#[test]
fn a_request_to_end_a_run_goes_under_the_ring_s_key_only_where_its_own_is_destroyed() {
    let failed = CodecError::Failed { reason: "the disk is full".into() };
    let unknown = CodecError::UnknownKey { key: "ann".into() };
    for (error, goes) in [(failed, false), (unknown, false), (destroyed(), true)] {
        let inner = Arc::new(MemoryStore::new());
        now(over(&inner, None).create(new_run(of("ann")))).unwrap();
        let store = over(&inner, Some(error));
        assert!(now(store.send(&run(), message("1", "signal:x"))).is_err());
        let sent = now(store.send(&run(), message("2", END_REQUESTS[0])));
        assert_eq!(sent.is_ok(), goes, "{sent:?}");
    }
}

#[test]
fn an_end_that_says_what_the_run_did_is_not_what_an_operator_said() {
    let step = Uncompensated {
        step: CommandId::new("0", "pay"),
        compensation: CommandId::new("undo.0", "refund"),
        in_doubt: false,
        message: "of ann's".into(),
    };
    assert!(is_asked_end(&frame(cancelled(Vec::new()))));
    assert!(is_asked_end(&frame(RunTerminated { reason: "r".into(), actor: "a".into() }.into())));
    assert!(!is_asked_end(&frame(cancelled(vec![step]))));
}

#[test]
fn requests_that_cannot_be_read_hide_no_other() {
    let inner = Arc::new(MemoryStore::new());
    let before = over(&inner, None);
    now(before.create(new_run(of("ann")))).unwrap();
    now(before.send(&run(), message("1", END_REQUESTS[0]))).unwrap();
    let after = over(&inner, Some(destroyed()));
    now(after.send(&run(), message("2", END_REQUESTS[1]))).unwrap();
    let requests = now(after.end_requests(&run())).unwrap();
    let read: Vec<_> = requests.iter().map(|request| request.payload.decode::<String>().ok()).collect();
    assert_eq!(read, [None, Some("said".to_owned())]);
}

#[test]
fn a_run_that_was_started_again_for_somebody_else_has_their_key() {
    let inner = Arc::new(MemoryStore::new());
    let store = over(&inner, None);
    // What this process knows is of a run that was purged since.
    store.announce(&run(), &of("ann"));
    now(over(&inner, None).create(new_run(of("bob")))).unwrap();
    now(store.send(&run(), message("1", "signal:x"))).unwrap();
    let stored = now(inner.inbox(&run(), 0)).unwrap();
    assert!(stored[0].payload.as_str().contains("\"key\":\"bob\""), "{stored:?}");
}

#[test]
fn a_run_that_another_process_has_taken_is_not_advanced_here() {
    let store = over(&Arc::new(MemoryStore::new()), None);
    store.subjects.begin(&run(), &of("ann"), 2);
    store.subjects.lose(&run(), 1);
    assert!(store.subjects.advanced(&run()).is_some(), "it was claimed again since");
    store.subjects.lose(&run(), 2);
    assert!(store.subjects.advanced(&run()).is_none());
}

#[test]
fn a_keyed_start_that_is_erased_can_be_removed() {
    let inner = Arc::new(MemoryStore::new());
    let record = Payload::from_text(r#"{"labels":{"who":"ann"}}"#.to_owned()).unwrap();
    let start = KeyedStart {
        name: "k".into(),
        workflow: "flow".into(),
        due_at: Timestamp::UNIX_EPOCH,
        record: record.clone(),
        revision: 4,
    };
    now(over(&inner, None).put_keyed_start(start, 0)).unwrap();
    let read = |store: CodedStore| now(store.keyed_start("k")).map(|start| start.map(|start| start.record));
    assert_eq!(read(over(&inner, None)).unwrap(), Some(record));
    assert_eq!(read(over(&inner, Some(destroyed()))).unwrap(), Some(Payload::null()));
    assert!(read(over(&inner, Some(CodecError::UnknownKey { key: "ann".into() }))).is_err());
    assert!(now(over(&inner, Some(destroyed())).remove_keyed_start("k", 4)).unwrap());
}

#[test]
fn keyed_starts_that_cannot_be_read_hide_no_others() {
    let inner = Arc::new(MemoryStore::new());
    let of = |who: &str| Payload::from_text(format!(r#"{{"labels":{{"who":"{who}"}}}}"#)).unwrap();
    for (name, who) in [("a", "ann"), ("b", "ann"), ("c", "ring"), ("d", "ann"), ("e", "ring")] {
        let (due_at, workflow) = (Timestamp::UNIX_EPOCH, "flow".into());
        let start = KeyedStart { name: name.into(), workflow, due_at, record: of(who), revision: 1 };
        assert!(now(over(&inner, None).put_keyed_start(start, 0)).unwrap());
    }
    let due = |store: &CodedStore, limit, after: Option<&str>| {
        let after = after.map(|name| (Timestamp::UNIX_EPOCH, name.to_owned()));
        let query = DueStarts { now: Timestamp::MAX, workflows: ["flow".into()].into(), after, limit };
        now(store.due_starts(query)).unwrap()
    };
    let store = over(&inner, Some(CodecError::UnknownKey { key: "ann".into() }));
    let page =
        |limit, after| due(&store, limit, after).into_iter().map(|start| start.name).collect::<Vec<_>>();
    assert_eq!(page(1, None), ["c"]);
    assert_eq!(page(1, Some("c")), ["e"]);
    assert_eq!(page(9, None), ["c", "e"]);
    assert_eq!(page(2, Some("e")), [""; 0]);
    // What is erased is there to be removed.
    let erased = due(&over(&inner, Some(destroyed())), 9, None);
    let is_erased = erased.iter().map(|start| (start.name.as_str(), start.record == Payload::null()));
    let expected = [("a", true), ("b", true), ("c", false), ("d", true), ("e", false)];
    assert_eq!(is_erased.collect::<Vec<_>>(), expected);
}

#[test]
fn a_schedule_that_is_erased_can_be_paused_and_removed_and_is_not_due() {
    let inner = Arc::new(MemoryStore::new());
    let spec = ScheduleSpec {
        workflow: "flow".into(),
        module: "shop".into(),
        version: 1,
        input: Payload::from_text("\"for ann\"".to_owned()).unwrap(),
        labels: of("ann"),
        cron: "@weekly".into(),
        zone: "UTC".into(),
        overlap: Default::default(),
        catch_up: Default::default(),
        jitter_ms: 0,
        gap: Default::default(),
        repeat: Default::default(),
    };
    let schedule = ScheduleRecord {
        name: "weekly".into(),
        spec,
        paused: false,
        next: Timestamp::UNIX_EPOCH,
        delay_ms: 0,
        starting: Vec::new(),
        last: None,
        recent: Vec::new(),
        created_at: Timestamp::UNIX_EPOCH,
        revision: 1,
    };
    assert_eq!(now(over(&inner, None).put_schedule(schedule.clone(), 0)), Ok(true));
    assert_eq!(now(over(&inner, None).schedule("weekly")), Ok(Some(schedule)));
    let stands = now(inner.schedule("weekly")).unwrap();
    let store = over(&inner, Some(destroyed()));
    let found = now(store.schedule("weekly")).unwrap();
    assert_eq!(found, stands);
    let query =
        DueSchedules { now: Timestamp::MAX, workflows: ["flow".into()].into(), after: None, limit: 9 };
    assert_eq!(now(store.due_schedules(query)), Ok(Vec::new()));
    let outcome = TickOutcome::Failed("for ann".into());
    let tick = Tick { at: Timestamp::UNIX_EPOCH, until: Timestamp::UNIX_EPOCH, outcome, noted_at: None };
    let paused = ScheduleRecord { paused: true, revision: 2, recent: vec![tick], ..found.unwrap() };
    assert_eq!(now(store.put_schedule(paused.clone(), 1)), Ok(true));
    let written = now(inner.schedule("weekly")).unwrap().unwrap();
    assert_eq!((written.paused, &written.spec.input), (true, &paused.spec.input), "encoded once");
    assert!(!format!("{written:?}").contains("for ann"), "{written:?}");
    assert_eq!(now(store.schedule("weekly")), Ok(Some(written)));
    let unknown = over(&inner, Some(CodecError::UnknownKey { key: "ann".into() }));
    assert!(now(unknown.schedule("weekly")).is_err());
    assert_eq!(now(store.remove_schedule("weekly")), Ok(true));
}

#[test]
fn who_has_no_codec_says_nothing_in_the_open_to_a_run_that_is_encoded() {
    let plain = |inner: &Arc<MemoryStore>| CodedStore::new(Arc::clone(inner) as Arc<dyn Store>, None);
    let inner = Arc::new(MemoryStore::new());
    now(over(&inner, None).create(new_run(of("ann")))).unwrap();
    let topics = ["signal:x", "decide:0:pay", "answer:0:ask", END_REQUESTS[0], END_REQUESTS[1]];
    for (number, topic) in topics.into_iter().enumerate() {
        let refused = now(plain(&inner).send(&run(), message(&number.to_string(), topic))).unwrap_err();
        let StoreError::Codec { run: Some(named), error, .. } = &refused else { panic!("{refused:?}") };
        assert_eq!((named, error), (&run(), &CodecError::WouldBeOpen { key: "ann".into() }));
        assert!(refused.to_string().contains("`.payload_codec(..)`"), "{refused}");
    }
    assert!(now(inner.inbox(&run(), 0)).unwrap().is_empty());
    // A store in front that has the codec is one in which nothing is encoded.
    let coded: Arc<dyn Store> = Arc::new(over(&inner, None));
    now(CodedStore::new(coded, None).send(&run(), message("9", "signal:x"))).unwrap();
    let stored = now(inner.inbox(&run(), 0)).unwrap();
    assert!(stored[0].payload.as_str().contains("\"key\":\"ann\""), "{stored:?}");

    let open = Arc::new(MemoryStore::new());
    now(plain(&open).create(new_run(of("ann")))).unwrap();
    now(plain(&open).send(&run(), message("1", "signal:x"))).unwrap();
    assert_eq!(now(open.inbox(&run(), 0)).unwrap().len(), 1);
    // Its values are encoded from now on.
    let coded = over(&open, None);
    let (ack, _reply) = crate::store::ack::Ack::awaited(run(), 2, Default::default());
    let lease = now(coded.claim(claim())).unwrap().remove(0);
    coded.append(Append {
        run: run(),
        epoch: lease.run.epoch,
        expected: 1,
        at: Timestamp::UNIX_EPOCH,
        frame: frame(cancelled(Vec::new())),
        work: None,
        acquire: None,
        ledger: Vec::new(),
        status: None,
        consumed: Vec::new(),
        waits: Vec::new(),
        code: None,
        unless_asked_to_end: false,
        renews: None,
        streams: Vec::new(),
        ack,
    });
    let refused = now(plain(&open).send(&run(), message("2", "signal:x")));
    assert!(
        matches!(&refused, Err(StoreError::Codec { error: CodecError::WouldBeOpen { .. }, .. })),
        "{refused:?}"
    );
}

fn claim() -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::from("w".to_owned()),
        now: Timestamp::MAX,
        silent: Vec::new(),
        limit: 1,
        codes: Vec::new(),
        only: None,
        adopt: vec![run()],
        serves: Default::default(),
        others_first: false,
        lapsed_first: false,
    }
}
