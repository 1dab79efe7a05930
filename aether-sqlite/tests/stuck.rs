//! A file that cannot be written for a while: what is kept until it can, what is answered at once, and what a close says.
//! And a file that is gone.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken promise panics with what it saw")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aether_core::contract::Status;
use aether_core::id::{CommandId, IdempotencyKey, WorkerId};
use aether_core::journal::{Frame, read_verified};
use aether_core::store::{
    Ack, Append, AppendError, AppendReply, BirthNotice, Created, DurableWatermark, Rollback, StatusChange,
    Store, StoreError, StoredEffect, Work,
};
use aether_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

use kit::{append, at, claim, frame, id, new_run, queue};

mod kit;

const MS: Duration = Duration::from_millis(1);

/// More than any file here has room for, and less than its ballast.
fn large() -> Frame {
    frame(&"x".repeat(2_000_000))
}

/// A file with runs `a` and `b`, and options with which the writer does not wait for locks.
struct File {
    _folder: TempDir,
    path: PathBuf,
}

impl File {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        let store = SqliteStore::open(&path).unwrap();
        for name in ["a", "b"] {
            store.create(new_run(name)).await.unwrap();
        }
        store.close().await.unwrap();
        Self { _folder: folder, path }
    }

    fn options() -> SqliteOptions {
        let busy_timeout = 30 * MS;
        SqliteOptions {
            busy_timeout,
            lock_patience: Duration::ZERO,
            linger: 100 * MS,
            ..SqliteOptions::default()
        }
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open_with(&self.path, Self::options()).unwrap()
    }

    /// A store that has room for little, and the connection that can make room.
    fn full(&self) -> (SqliteStore, Connection) {
        let conn = Connection::open(&self.path).unwrap();
        conn.busy_timeout(Duration::from_secs(10)).unwrap();
        conn.execute_batch("CREATE TABLE ballast AS SELECT zeroblob(4000000) AS bytes").unwrap();
        let pages: u32 = conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let options = SqliteOptions { max_pages: Some(pages + 20), ..Self::options() };
        (SqliteStore::open_with(&self.path, options).unwrap(), conn)
    }
}

fn lock(path: &Path) -> Connection {
    let other = Connection::open(path).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    other
}

async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The answer to an append that was made, and soon.
async fn soon(reply: AppendReply) {
    let answer = tokio::time::timeout(Duration::from_secs(60), reply).await;
    answer.expect("it takes too long").unwrap().unwrap();
}

#[tokio::test]
async fn appends_wait_for_a_full_disk_and_are_written_in_order_when_there_is_room() {
    let file = File::new().await;
    let (store, conn) = file.full();
    let watermark = Arc::new(DurableWatermark::from(1));
    let silent = |expected: u64, frame: Frame| {
        let ack = Ack::silent(id("a"), expected + 1, Arc::clone(&watermark));
        store.append(Append { ack, ..append("a", 1, expected, frame) });
    };
    silent(1, large());
    sleep(300 * MS).await;
    // Nothing of the same run overtakes what waits, and neither does a run that would fit.
    silent(2, frame("second"));
    let other = queue(&store, append("b", 1, 1, frame("other")));
    sleep(300 * MS).await;
    assert_eq!((watermark.durable(), watermark.failure()), (1, None));
    assert_eq!(store.load(&id("a"), 0).await.unwrap().len(), 1, "reads are answered");
    let call = store.claim(claim("second", 1)).await;
    assert!(matches!(call, Err(StoreError::Full { .. })), "a caller that waits is answered: {call:?}");
    conn.execute_batch("DROP TABLE ballast").unwrap();
    watermark.reached(3).await.unwrap();
    other.await.unwrap().unwrap();
    assert_eq!(read_verified(&store.load(&id("a"), 0).await.unwrap()).unwrap().len(), 3);
    store.close().await.unwrap();
}

/// Finds no room for its outcome, and counts its calls.
#[derive(Debug)]
struct Note {
    key: IdempotencyKey,
    calls: Arc<AtomicU32>,
    called_off: Arc<AtomicBool>,
}

impl Note {
    /// The first append of `run`, with what counts its calls and what calls it off.
    fn queue(store: &SqliteStore, run: &str) -> (AppendReply, Arc<AtomicU32>, Arc<AtomicBool>) {
        let (calls, called_off) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
        let key = IdempotencyKey::new(&id(run), &CommandId::new("0", "note"), 0);
        let work = Self { key, calls: Arc::clone(&calls), called_off: Arc::clone(&called_off) };
        let step = Append { work: Some(Box::new(work)), ..append(run, 1, 1, frame("only counted")) };
        (queue(store, step), calls, called_off)
    }
}

impl Work for Note {
    fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }

    fn call(&mut self) -> bool {
        self.calls.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn frame(&mut self, undone: Option<Rollback>) -> Result<Frame, StoreError> {
        Ok(match undone {
            None => large(),
            Some(Rollback::CalledOff) => frame("called off"),
            Some(_) => frame("undone"),
        })
    }

    fn is_called_off(&self) -> bool {
        self.called_off.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_transaction_step_that_finds_the_disk_full_at_its_end_is_begun_again_and_takes_nothing_along() {
    let file = File::new().await;
    let (store, conn) = file.full();
    let (step, calls, _) = Note::queue(&store, "a");
    // The outcome of another branch.
    let outcome = queue(&store, append("a", 1, 2, frame("outcome")));
    let mut step = Box::pin(step);
    assert!(tokio::time::timeout(600 * MS, &mut step).await.is_err(), "it waits for room");
    assert!(calls.load(Ordering::SeqCst) >= 1, "the body was called");
    others_are_written(&store).await;
    assert_eq!(store.claim(claim("second", 1)).await.unwrap().len(), 1);
    conn.execute_batch("DROP TABLE ballast").unwrap();
    step.await.unwrap().unwrap();
    outcome.await.unwrap().unwrap();
    assert!(calls.load(Ordering::SeqCst) >= 2, "and again");
    let frames = store.load(&id("a"), 0).await.unwrap();
    assert_eq!(read_verified(&frames).unwrap().len(), 3);
    assert_eq!((&frames[1].text, &frames[2].text), (&large().text, &frame("outcome").text));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_close_does_not_wait_for_ever_for_a_step_that_finds_no_room_and_says_what_was_not_written() {
    let file = File::new().await;
    let (store, _conn) = file.full();
    let (step, ..) = Note::queue(&store, "a");
    let outcome = queue(&store, append("a", 1, 2, frame("outcome")));
    let other = queue(&store, append("b", 1, 1, frame("other")));
    let asked = Instant::now();
    let error = store.close().await.unwrap_err();
    assert!(asked.elapsed() < Duration::from_secs(60), "{:?}", asked.elapsed());
    assert!(error.to_string().contains("without writing appends: 2 (runs `a`)"), "{error}");
    other.await.unwrap().unwrap();
    for lost in [step, outcome] {
        assert!(matches!(lost.await.unwrap(), Err(AppendError::Store(StoreError::Full { .. }))));
    }
}

/// Run `a` has a transaction step that finds no room, and behind it the outcome of another branch, which fits.
#[tokio::test]
async fn a_step_that_is_called_off_gives_way_to_the_outcomes_behind_it() {
    for called_off_after in [0, 1, 7, 40, 500] {
        let file = File::new().await;
        let (store, _conn) = file.full();
        let (step, calls, called_off) = Note::queue(&store, "a");
        let (mut waits, _, given_up) = Note::queue(&store, "b");
        let outcome = queue(&store, append("a", 1, 2, frame("outcome")));
        sleep(called_off_after * MS).await;
        called_off.store(true, Ordering::SeqCst);
        soon(step).await;
        let calls_before = calls.load(Ordering::SeqCst);
        soon(outcome).await;
        let end =
            StatusChange { status: Status::Cancelled, wake_at: None, release: true, seen: 0, notify: None };
        let end = queue(&store, Append { status: Some(end), ..append("a", 1, 3, frame("end")) });
        soon(end).await;
        assert_eq!(calls.load(Ordering::SeqCst), calls_before, "a body is not called any more");
        assert_eq!(
            texts(&store, "a").await[1..],
            ["called off", "outcome", "end"].map(|name| frame(name).text)
        );
        assert!(waits.try_recv().is_err(), "what was not called off waits for room");
        given_up.store(true, Ordering::SeqCst);
        store.close().await.unwrap();
        soon(waits).await;
    }
}

#[tokio::test]
async fn a_run_whose_step_is_called_off_is_left_to_others() {
    let file = File::new().await;
    let (store, _conn) = file.full();
    let (step, _, called_off) = Note::queue(&store, "a");
    let outcome = queue(&store, append("a", 1, 2, frame("outcome")));
    sleep(100 * MS).await;
    assert!(store.release(&first(), &id("a"), 1, at(0)).await.is_err());
    called_off.store(true, Ordering::SeqCst);
    soon(step).await;
    soon(outcome).await;
    store.release(&first(), &id("a"), 1, at(0)).await.unwrap();
    let claimed = store.claim(claim("second", 1)).await.unwrap();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_close_keeps_the_outcomes_behind_steps_that_are_called_off() {
    for called_off_after in [0, 1, 40, 300] {
        let file = File::new().await;
        let (store, _conn) = file.full();
        let steps = ["a", "b"].map(|run| Note::queue(&store, run));
        let outcomes = ["a", "b"].map(|run| queue(&store, append(run, 1, 2, frame("outcome"))));
        sleep(called_off_after * MS).await;
        steps.iter().for_each(|(_, _, called_off)| called_off.store(true, Ordering::SeqCst));
        store.close().await.unwrap();
        for outcome in outcomes {
            soon(outcome).await;
        }
        let store = file.open();
        for run in ["a", "b"] {
            assert_eq!(texts(&store, run).await[1..], ["called off", "outcome"].map(|name| frame(name).text));
        }
        store.close().await.unwrap();
    }
}

/// The frames of a run.
/// Who creates runs.
fn first() -> WorkerId {
    WorkerId::from("first".to_owned())
}

async fn texts(store: &SqliteStore, run: &str) -> Vec<String> {
    let frames = store.load(&id(run), 0).await.unwrap();
    read_verified(&frames).unwrap();
    frames.into_iter().map(|frame| frame.text).collect()
}

/// A process that has run out of files, as the test below starts it.
#[tokio::test]
async fn steps_without_files() {
    if std::env::var_os("AETHER_SQLITE_FEW_FILES").is_none() {
        return;
    }
    let file = File::new().await;
    let store = file.open();
    let taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let (mut step, calls, _) = Note::queue(&store, "a");
    // The outcome of another branch.
    let outcome = queue(&store, append("a", 1, 2, frame("outcome")));
    let waits = tokio::time::timeout(600 * MS, &mut step).await;
    assert!(waits.is_err(), "it waits until its connection can be opened: {waits:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    others_are_written(&store).await;
    // No reader has a connection yet.
    let read = store.load(&id("a"), 0).await;
    assert!(matches!(&read, Err(error @ StoreError::Unavailable { .. }) if error.is_retryable()), "{read:?}");
    drop(taken);
    step.await.unwrap().unwrap();
    outcome.await.unwrap().unwrap();
    assert_eq!(store.load(&id("a"), 0).await.unwrap().len(), 3);
    store.release(&first(), &id("a"), 1, at(0)).await.unwrap();
    println!("\nboth are written");
}

/// What is not of run `a`, while a transaction step of that waits, and several times, so that the step is tried in between.
async fn others_are_written(store: &SqliteStore) {
    let worker = "first".to_owned().into();
    for position in 1..5 {
        queue(store, append("b", 1, position, frame("other"))).await.unwrap().unwrap();
        store.renew(&worker, Duration::from_secs(15), Vec::new()).await.unwrap();
        sleep(100 * MS).await;
    }
    // Whoever got the run would fence what waits.
    let kept = store.release(&first(), &id("a"), 1, at(0)).await;
    assert!(kept.is_err(), "a run is not left to others while a step of it waits");
    store.release(&first(), &id("b"), 1, at(0)).await.unwrap();
}

#[cfg(unix)]
#[test]
fn the_first_transaction_step_waits_while_its_connection_cannot_be_opened_and_takes_nothing_along() {
    let said = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" steps_without_files --exact --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env("AETHER_SQLITE_FEW_FILES", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("both are written"), "{text}{}", String::from_utf8_lossy(&said.stderr));
}

#[tokio::test]
async fn a_caller_that_can_decide_is_answered_with_the_error_and_an_outcome_is_kept() {
    let file = File::new().await;
    let store = file.open();
    let other = lock(&file.path);
    let kept = queue(&store, append("a", 1, 1, frame("event")));
    let command = CommandId::new("0", "act");
    let effect = StoredEffect {
        run: id("a"),
        key: IdempotencyKey::new(&id("a"), &command, 0),
        frame: frame("outcome"),
        status: None,
    };
    let mut outcome = store.put_effect(effect.clone(), 1, Vec::new());
    let asked = Instant::now();
    let call = store.claim(claim("second", 1)).await;
    assert!(matches!(&call, Err(error @ StoreError::Locked { .. }) if error.is_retryable()), "{call:?}");
    assert!(asked.elapsed() < 60_000 * MS);
    assert!(tokio::time::timeout(300 * MS, &mut outcome).await.is_err(), "it waits");
    other.execute_batch("COMMIT").unwrap();
    outcome.await.unwrap();
    kept.await.unwrap().unwrap();
    assert_eq!(store.effects(&id("a")).await.unwrap(), [effect]);
    assert!(store.claim(claim("second", 1)).await.is_ok());
}

#[tokio::test]
async fn a_refusal_is_not_answered_before_what_caused_it_is_written() {
    let file = File::new().await;
    let store = file.open();
    let other = lock(&file.path);
    // The end of the run is not written yet, so that the run has not ended for anyone.
    let status =
        StatusChange { status: Status::Completed, wake_at: None, release: true, seen: 0, notify: None };
    let ends = queue(&store, Append { status: Some(status), ..append("a", 1, 1, frame("end")) });
    let mut late = queue(&store, append("a", 1, 2, frame("late")));
    assert!(tokio::time::timeout(300 * MS, &mut late).await.is_err());
    other.execute_batch("COMMIT").unwrap();
    ends.await.unwrap().unwrap();
    let late = late.await.unwrap();
    assert!(matches!(late, Err(AppendError::RunEnded { .. })), "{late:?}");
}

#[tokio::test]
async fn an_append_that_was_written_although_its_commit_failed_is_durable() {
    let file = File::new().await;
    let store = file.open();
    let other = lock(&file.path);
    let (mut written, mut other_frame) =
        (queue(&store, append("a", 1, 1, frame("event"))), queue(&store, append("b", 1, 1, frame("event"))));
    // Long enough for a slow machine to try them: what was never tried was written by somebody else.
    assert!(tokio::time::timeout(3000 * MS, &mut written).await.is_err());
    assert!(other_frame.try_recv().is_err());
    // What a commit leaves whose error came after it was written; of `b` something else was written.
    let insert = "INSERT INTO aether_journal(run_no, position, count, at, epoch, events, chain)
                  SELECT no, 1, 1, 0, 1, ?2, x'00' FROM aether_runs WHERE id = ?1";
    other.execute(insert, ["a", &frame("event").text]).unwrap();
    other.execute(insert, ["b", &frame("another").text]).unwrap();
    other.execute("UPDATE aether_runs SET next = 2", []).unwrap();
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(written.await.unwrap().unwrap().next, 2);
    let refused = other_frame.await.unwrap();
    assert!(matches!(refused, Err(AppendError::WrongPosition { found: 2, .. })), "{refused:?}");
}

#[tokio::test]
async fn an_append_that_cannot_be_written_at_all_takes_no_other_with_it() {
    let file = File::new().await;
    let store = file.open();
    let other = lock(&file.path);
    other
        .execute_batch(
            "CREATE TRIGGER broken BEFORE INSERT ON aether_journal WHEN new.events LIKE '%poison%'
             BEGIN SELECT RAISE(ABORT, 'broken'); END",
        )
        .unwrap();
    let one = queue(&store, append("a", 1, 1, frame("one")));
    let poison = queue(&store, append("b", 1, 1, frame("poison")));
    let two = queue(&store, append("a", 1, 2, frame("two")));
    other.execute_batch("COMMIT").unwrap();
    one.await.unwrap().unwrap();
    two.await.unwrap().unwrap();
    let error = poison.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
}

#[tokio::test]
async fn closing_on_a_full_disk_ends_and_says_what_was_not_written() {
    let file = File::new().await;
    let (store, _conn) = file.full();
    let lost = queue(&store, append("a", 1, 1, large()));
    sleep(200 * MS).await;
    let asked = Instant::now();
    let error = store.close().await.unwrap_err();
    assert!(asked.elapsed() < Duration::from_secs(60), "{:?}", asked.elapsed());
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("without writing appends: 1 (runs `a`)"), "{error}");
    assert!(matches!(lost.await.unwrap(), Err(AppendError::Store(StoreError::Full { .. }))));
    store.close().await.unwrap();
}

#[tokio::test]
async fn nothing_is_acknowledged_after_the_file_was_deleted_or_replaced() {
    let gone = |path: &Path| std::fs::remove_file(path).unwrap();
    let replaced = |path: &Path| {
        std::fs::copy(path, path.with_extension("copy")).unwrap();
        std::fs::rename(path.with_extension("copy"), path).unwrap();
    };
    let log_gone = |path: &Path| std::fs::remove_file(path.with_extension("db-wal")).unwrap();
    type Case = (fn(&Path), &'static str);
    let cases: [Case; 3] =
        [(gone, "deleted or moved"), (replaced, "replaced by another file"), (log_gone, "agent.db-wal")];
    for (lose, says) in cases {
        let file = File::new().await;
        let store = file.open();
        queue(&store, append("a", 1, 1, frame("event"))).await.unwrap().unwrap();
        lose(&file.path);
        let error = queue(&store, append("a", 1, 2, frame("event"))).await.unwrap().unwrap_err();
        assert!(
            matches!(&error, AppendError::Store(error @ StoreError::Lost { .. }) if !error.is_retryable())
        );
        assert!(
            error.to_string().contains(says) && error.to_string().contains("put the file back"),
            "{error}"
        );
        assert!(matches!(store.claim(claim("second", 1)).await, Err(StoreError::Lost { .. })));
        // Opened for the first time by this read, or not: never the content of another file.
        for _ in 0..2 {
            let read = store.load(&id("a"), 0).await;
            assert!(matches!(&read, Err(StoreError::Lost { .. })) || read.unwrap().len() == 2);
        }
        store.close().await.unwrap();
    }
}

/// What others have written since would be damaged: the log of this store is not one of the file any more.
#[tokio::test]
async fn a_store_that_has_lost_its_log_changes_nothing_as_it_closes() {
    for lost in [&["db-wal", "db-shm"][..], &["db-wal"], &["db-shm"]] {
        let file = File::new().await;
        let store = file.open();
        queue(&store, append("a", 1, 1, frame("event"))).await.unwrap().unwrap();
        store.load(&id("a"), 0).await.unwrap();
        lost.iter().for_each(|log| std::fs::remove_file(file.path.with_extension(log)).unwrap());
        let before = std::fs::read(&file.path).unwrap();
        let refused = queue(&store, append("a", 1, 2, frame("event"))).await.unwrap();
        assert!(matches!(refused, Err(AppendError::Store(StoreError::Lost { .. }))), "{lost:?}: {refused:?}");
        store.close().await.unwrap();
        drop(store);
        assert!(std::fs::read(&file.path).unwrap() == before, "{lost:?}: the file was changed by the close");
    }
}

/// The locks of writers are in it: a process that opens the file would write at the same time.
#[tokio::test]
async fn nothing_is_written_without_the_index_of_the_log() {
    let file = File::new().await;
    let store = file.open();
    queue(&store, append("a", 1, 1, frame("event"))).await.unwrap().unwrap();
    std::fs::remove_file(file.path.with_extension("db-shm")).unwrap();
    let lost = queue(&store, append("a", 1, 2, frame("event"))).await.unwrap().unwrap_err();
    let says = lost.to_string();
    assert!(matches!(lost, AppendError::Store(StoreError::Lost { .. })), "{says}");
    assert!(says.contains("agent.db-shm was deleted") && says.contains("and start again"), "{says}");
    store.close().await.unwrap();
    // It is made anew.
    let store = file.open();
    queue(&store, append("a", 1, 2, frame("event"))).await.unwrap().unwrap();
    assert_eq!(store.load(&id("a"), 0).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_file_that_is_moved_away_and_back_is_written_again() {
    let file = File::new().await;
    let store = file.open();
    let (away, log) = (file.path.with_extension("away"), file.path.with_extension("db-wal"));
    std::fs::rename(&file.path, &away).unwrap();
    let refused = queue(&store, append("a", 1, 1, frame("event"))).await.unwrap();
    assert!(matches!(refused, Err(AppendError::Store(StoreError::Lost { .. }))), "{refused:?}");
    std::fs::rename(&away, &file.path).unwrap();
    assert!(log.exists());
    queue(&store, append("a", 1, 1, frame("event"))).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_run_that_was_begun_on_word_of_a_creation_that_failed_writes_nothing_to_that_of_another() {
    let file = File::new().await;
    let (store, _ballast) = file.full();
    // Tried again until the creation was told: where the lock goes too late, it is answered before.
    for name in (0..50).map(|number| format!("c{number}")) {
        // More than there is room for, and made before: to make it takes time, in which the creation would be answered.
        let too_large = frame(&"x".repeat(400_000));
        let other = lock(&file.path);
        let kept = queue(&store, append("b", 1, 1, frame("kept")));
        sleep(100 * MS).await;
        let (notice, mut told) = BirthNotice::new();
        let watermark = Arc::new(DurableWatermark::from(1).born(Some(notice.birth())));
        let appended = |expected: u64, frame: Frame| {
            let (ack, answer) = Ack::awaited(id(&name), expected + 1, Arc::clone(&watermark));
            store.append(Append { ack, ..append(&name, 1, expected, frame) });
            answer
        };
        let creation = store.create_early(new_run(&name), notice);
        let first = appended(1, too_large);
        other.execute_batch("COMMIT").unwrap();
        let created = creation.await;
        assert!(matches!(created, Err(StoreError::Full { .. } | StoreError::Locked { .. })), "{created:?}");
        let was_told = told.try_recv().is_ok();
        // Somebody else takes the id: with room, and at the same epoch and position.
        let process = file.open();
        assert_eq!(process.create(new_run(&name)).await, Ok(Created::New));
        let later = appended(1, frame("of the run that is not there"));
        for answer in [first, later] {
            let refused = answer.await.unwrap();
            assert!(matches!(refused, Err(AppendError::StaleEpoch { held: 1, found: 0, .. })), "{refused:?}");
        }
        assert_eq!(process.load(&id(&name), 0).await.unwrap().len(), 1);
        process.close().await.unwrap();
        let _answered = kept.await;
        if was_told {
            return store.close().await.unwrap();
        }
    }
    panic!("no creation was told before its transaction failed");
}
