//! The user's own migrations: `.prepare(..)` on the builder of an engine.
//!
//! Promise: they run on a connection to the store's file, one process after the other, before the engine claims a run.
//! They cannot change the engine's tables. What they committed before an error stays; the start fails with that error.

use std::error::Error;
use std::fs::{File, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use tokio::sync::oneshot;

use aether_core::engine::PrepareError;

use crate::options::SqliteOptions;
use crate::place::beside;
use crate::sched::{Instant, sleep, spawn};
use crate::{open, schema};

/// What the user's closure is behind its types.
pub(crate) type Prepare = Box<dyn FnOnce(&mut Connection) -> Result<(), BoxError> + Send>;

type BoxError = Box<dyn Error + Send + Sync>;

/// Between two looks at a lock that another process holds.
const LOOK: Duration = Duration::from_millis(20);

/// After how long a process that waits for another one's migrations says so.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `prepare` on a thread of its own.
pub(crate) async fn run(
    path: &Path,
    store: &Arc<str>,
    options: &SqliteOptions,
    prepare: Prepare,
) -> Result<(), PrepareError> {
    let (reply, answer) = oneshot::channel();
    let (path, store, options) = (path.to_owned(), Arc::clone(store), options.clone());
    let work = move || {
        let done = open_and_prepare(&path, &store, &options, prepare, &|| !reply.is_closed());
        let _asker_gone = reply.send(done);
    };
    spawn("aether-sqlite-prepare", work).map_err(PrepareError::new)?;
    answer
        .await
        .unwrap_or_else(|_| Err("the thread that prepares ended early".into()))
        .map_err(PrepareError::new)
}

fn open_and_prepare(
    path: &Path,
    store: &str,
    options: &SqliteOptions,
    prepare: Prepare,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(), BoxError> {
    let mut conn = open::open(path, store, options)?;
    // The path that SQLite has open: the given one may be a URI.
    let file = conn.path().map_or_else(|| path.to_owned(), PathBuf::from);
    let Some(_lock) = lock(&file, store, is_wanted)? else { return Ok(()) };
    let refused = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&refused);
    conn.authorizer(Some(move |context: AuthContext<'_>| match refusal(&context) {
        None => Authorization::Allow,
        Some(reason) => {
            seen.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
            Authorization::Deny
        }
    }))?;
    let prepared = catch_unwind(AssertUnwindSafe(|| prepare(&mut conn)))
        .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic)).into()));
    let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
    let done = match (refused, prepared) {
        (Some(what), prepared) => Err(Refused { what, error: prepared.err() }.into()),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => what_is_left(&conn, store),
    };
    // Before the lock is released: what the closure left open must not be in the next process's way.
    drop(conn);
    done
}

/// What would be in the engine's way: a transaction that is open, or a table that was renamed to a name of the engine's.
fn what_is_left(conn: &Connection, store: &str) -> Result<(), BoxError> {
    if !conn.is_autocommit() {
        return Err("it left a transaction open, which was rolled back: commit it".into());
    }
    schema::look(conn, store).map(drop).map_err(|error| error.into_store_error(store).into())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

/// The file whose lock lets one process prepare, or restore, the database at `file`.
pub(crate) fn lock_of(file: &Path) -> PathBuf {
    beside(file, "-prepare")
}

/// Waits until no other process prepares `file`. `None` where nobody waits for the answer any more.
///
/// A lock of the operating system on a file beside the database: a transaction would not do, for the user's own are
/// begun under it, and a process that dies releases it. The file stays: were it removed, two processes could each hold
/// the lock on a file of that name.
fn lock(file: &Path, store: &str, is_wanted: &dyn Fn() -> bool) -> Result<Option<File>, BoxError> {
    let place = lock_of(file);
    let failed = |error: std::io::Error| {
        let place = place.display();
        format!("`{place}`, the lock that lets one process prepare at a time, cannot be taken: {error}")
    };
    let lock = File::options().create(true).truncate(false).write(true).open(&place).map_err(failed)?;
    let mut since = Instant::now();
    while is_wanted() {
        match lock.try_lock() {
            Ok(()) => return Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error).into()),
        }
        if since.elapsed() >= PATIENCE {
            tracing::warn!(%store, lock = %place.display(), "waits for another process that prepares the file");
            since = Instant::now();
        }
        sleep(LOOK);
    }
    Ok(None)
}

/// A statement that `.prepare(..)` must not make. The start fails also where the closure ignores SQLite's error.
#[derive(Debug, thiserror::Error)]
#[error("its SQL must not {what}")]
struct Refused {
    what: String,
    #[source]
    error: Option<BoxError>,
}

/// What is wrong with a statement: it changes what is the engine's, or how the engine's connections work.
fn refusal(context: &AuthContext<'_>) -> Option<String> {
    if let AuthAction::Pragma { pragma_name, pragma_value: Some(value) } = context.action {
        return pragma(pragma_name, value);
    }
    // Under any name that a file is attached as, for it may be the store's own. But temporary tables are nobody else's,
    // and `VACUUM` fills a copy.
    if context.database_name.is_some_and(|name| name == "temp" || name.starts_with("vacuum_")) {
        return None;
    }
    let own = |name: &str| {
        schema::is_reserved(name)
            .then(|| format!("change `{name}`: names in `aether_` are kept for the engine"))
    };
    match context.action {
        AuthAction::Insert { table_name: name }
        | AuthAction::Delete { table_name: name }
        | AuthAction::Update { table_name: name, .. }
        | AuthAction::DropTable { table_name: name }
        | AuthAction::DropView { view_name: name }
        | AuthAction::DropIndex { table_name: name, .. }
        | AuthAction::DropTrigger { table_name: name, .. }
        | AuthAction::AlterTable { table_name: name, .. }
        | AuthAction::CreateTable { table_name: name }
        | AuthAction::CreateView { view_name: name }
        | AuthAction::CreateVtable { table_name: name, .. } => own(name),
        AuthAction::CreateIndex { index_name: name, table_name }
        | AuthAction::CreateTrigger { trigger_name: name, table_name } => {
            own(table_name).or_else(|| own(name))
        }
        _ => None,
    }
}

fn pragma(name: &str, value: &str) -> Option<String> {
    let taken = match &*name.to_ascii_lowercase() {
        "journal_mode" => !value.eq_ignore_ascii_case("wal"),
        "locking_mode" => !value.eq_ignore_ascii_case("normal"),
        "writable_schema" => true,
        _ => false,
    };
    taken.then(|| format!("use `PRAGMA {name} = {value}`: the engine works on the file at the same time"))
}
