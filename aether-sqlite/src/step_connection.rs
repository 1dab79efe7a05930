//! The connection of transaction steps: a second one, on which the step's SQL and the append of its outcome are one
//! transaction.
//!
//! Promise: the SQL of a step is kept exactly if its append takes effect; whatever it does, it cannot end the
//! transaction, reach the engine's own tables, or hold the writer longer than its time, and no other append is part of
//! its transaction. What the file refuses to its SQL for the moment (a full disk, an I/O error) is no outcome of the step,
//! whatever its body makes of it. The connection never leaves the writer's thread.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode};

use aether_core::id::IdempotencyKey;
use aether_core::store::ledger::Acquired;
use aether_core::store::{Append, AppendError, Rollback, StoreError, Work};

use crate::batch::Batch;
use crate::error::{AppendOpError, OpError, is_transient, translate};
use crate::identity::FileWatch;
use crate::options::SqliteOptions;
use crate::{open, schema};

/// Instructions of SQLite's machine between two looks at the clock.
const INSTRUCTIONS: i32 = 1_000;

thread_local! {
    /// The step whose body the writer's thread is in.
    static CURRENT: RefCell<Option<CurrentStep>> = const { RefCell::new(None) };
}

/// The connection while a step's body has it.
struct CurrentStep {
    conn: Rc<Connection>,
    key: IdempotencyKey,
    /// The first error of its SQL that is none of its own.
    passing: Option<rusqlite::Error>,
}

/// The connection, if the attempt `key` is what it runs at this moment, on this thread.
///
/// By thread and by key: a body that hands its context to another thread, or keeps it for a later step, gets nothing.
pub(crate) fn connection_for(key: &IdempotencyKey) -> Option<Rc<Connection>> {
    CURRENT.with_borrow(|current| {
        current.as_ref().filter(|current| current.key == *key).map(|current| Rc::clone(&current.conn))
    })
}

/// Keeps `error`, which a statement of the body had that this thread is in, if it is of the file and not of the statement.
pub(crate) fn note(error: &rusqlite::Error) {
    // With the write lock in hand, busy or locked says that the body has a statement open; it is interrupted at its time.
    let own = [ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked, ErrorCode::OperationInterrupted].map(Some);
    if let rusqlite::Error::SqliteFailure(failure, message) = error
        && is_transient(error)
        && !own.contains(&Some(failure.code))
    {
        CURRENT.with_borrow_mut(|current| {
            if let Some(current) = current {
                current
                    .passing
                    .get_or_insert_with(|| rusqlite::Error::SqliteFailure(*failure, message.clone()));
            }
        });
    }
}

/// Ends the body's access to the connection, also where it panicked.
struct ClearOnDrop;

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// The second connection and its guard.
pub(crate) struct StepConnection {
    conn: Rc<Connection>,
    guard: Arc<Guard>,
}

impl StepConnection {
    /// Opens the second connection.
    pub(crate) fn open(path: &Path, store: &str, options: &SqliteOptions) -> Result<Self, OpError> {
        let mut conn = open::try_to_open(path, store, options)?;
        let guard = Arc::new(Guard { own: schema::own_names()?, ..Guard::default() });
        guard.watch(&mut conn)?;
        Ok(Self { conn: Rc::new(conn), guard })
    }

    /// Closes the connection.
    pub(crate) fn close(self, watch: &FileWatch) {
        watch.before_close(&self.conn);
    }

    /// The transactions of this connection.
    pub(crate) fn batch(&self, store: &Arc<str>, patience: Duration) -> rusqlite::Result<Batch<'_>> {
        Batch::new(&self.conn, store, patience)
    }

    /// Runs the body of `work`, and says whether its changes may be kept. An error is one that its SQL had and that passes.
    fn run(&self, work: &mut dyn Work) -> rusqlite::Result<Result<bool, Rollback>> {
        // The guard is on before the body can reach the connection, and off only after it cannot any more.
        self.guard.begin(work.timeout());
        let (conn, key) = (Rc::clone(&self.conn), work.key().clone());
        CURRENT.set(Some(CurrentStep { conn, key, passing: None }));
        let clear = ClearOnDrop;
        let keep = work.call();
        let passing = CURRENT.with_borrow_mut(|current| current.as_mut()?.passing.take());
        drop(clear);
        // What the guard refused it refuses again, and a step whose time is up is not begun anew for ever.
        if let Some(undone) = self.guard.end() {
            return Ok(Err(undone));
        }
        if let Some(error) = passing {
            return Err(error);
        }
        // `renamed` runs SQL of ours, which a guard whose time is up would interrupt.
        Ok(match self.renamed() {
            Some(undone) => Err(undone),
            // The transaction is gone, and with it the lock: what is appended now would be committed without the SQL.
            None if keep && self.conn.is_autocommit() => Err(Rollback::Refused(
                "a statement of the step rolled the whole transaction back (`OR ROLLBACK`, `RAISE(ROLLBACK, ..)`)"
                    .into(),
            )),
            None => Ok(keep),
        })
    }

    /// A renaming does not tell SQLite's guard the new name.
    fn renamed(&self) -> Option<Rollback> {
        if !self.guard.altered.load(Ordering::Acquire) {
            return None;
        }
        let refusal = match schema::reserved_names(&self.conn) {
            Ok(names) => {
                names.iter().filter(|name| self.guard.own_table(name).is_none()).find_map(|n| reserved(n))
            }
            Err(error) => Some(format!("alter the schema so that it cannot be read: {error}")),
        };
        refusal.map(|reason| Rollback::Refused(format!("the SQL of a transaction step must not {reason}")))
    }
}

/// Why an append with a unit of work did not take effect. With an error of the driver: whether it is transient.
#[derive(Debug)]
pub(crate) enum StepFailure {
    /// The body was not called.
    NotBegun(StoreError, bool),
    /// The body was called and its changes are rolled back; the append's frame is what says so.
    Unrecorded(StoreError, bool),
    /// The body was called, and its changes were rolled back with the append, so that nothing happened.
    Undone(StoreError, bool),
    /// The append was refused.
    Refused(AppendError),
}

/// Runs an append with a unit of work, in a transaction of its own; durable when it returns.
pub(crate) fn run_transaction(
    connection: &StepConnection,
    batch: &mut Batch<'_>,
    append: &mut Append,
    work: &mut dyn Work,
) -> Result<Acquired, StepFailure> {
    let mut stage: fn(StoreError, bool) -> StepFailure = StepFailure::NotBegun;
    let done = attempt(connection, batch, append, work, &mut stage);
    done.map_err(|error| {
        batch.rollback();
        match error {
            OpError::Refused(error) => StepFailure::Refused(error),
            OpError::Sqlite(error) => stage(translate(&error, &batch.store), is_transient(&error)),
            OpError::Row(reason) => {
                let store = batch.store.to_string();
                StepFailure::Refused(StoreError::Corrupt { store, reason }.into())
            }
        }
    })
}

/// `stage` makes the failure that an error of the driver is from here on.
fn attempt(
    connection: &StepConnection,
    batch: &mut Batch<'_>,
    append: &mut Append,
    work: &mut dyn Work,
    stage: &mut fn(StoreError, bool) -> StepFailure,
) -> Result<Acquired, AppendOpError> {
    batch.begin()?;
    // Before the body: one that lost its run to another worker must not run at all, for what it does besides SQL is
    // not rolled back. The lock is held from here to the commit, so it cannot lose the run in between.
    batch.admit(append)?;
    *stage = StepFailure::Undone;
    let undone = match connection.run(work)? {
        Ok(true) => {
            append.frame = work.frame(None).map_err(|error| OpError::Refused(error.into()))?;
            // The outcome is in the SQL's own transaction: a crash leaves both or neither.
            let acquired = batch.append(append)?;
            match batch.commit() {
                Ok(()) => return Ok(acquired),
                // The step's own doing (a deferred foreign key): an outcome to be recorded, not a failure of the store.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                    Some(Rollback::Refused(format!("a deferred constraint is violated at the end: {error}")))
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false) => None,
        Err(undone) => Some(undone),
    };
    // First the SQL goes, then the outcome says that it did: the other way round a crash could leave both.
    batch.rollback();
    append.frame = work.frame(undone).map_err(|error| OpError::Refused(error.into()))?;
    *stage = StepFailure::Unrecorded;
    batch.begin()?;
    // The lock was free for a moment and the run may have been claimed: `append` checks epoch and position once more.
    let acquired = batch.append(append)?;
    batch.commit()?;
    Ok(acquired)
}

/// Watches over the statements of a step's body.
#[derive(Debug, Default)]
struct Guard {
    on: AtomicBool,
    /// A table was altered.
    altered: AtomicBool,
    own: HashSet<String>,
    deadline: Mutex<Option<Instant>>,
    undone: Mutex<Option<Rollback>>,
}

impl Guard {
    /// Sets itself up on a connection, for good.
    fn watch(self: &Arc<Self>, conn: &mut Connection) -> rusqlite::Result<()> {
        let guard = Arc::clone(self);
        conn.authorizer(Some(move |context: AuthContext<'_>| guard.authorize(&context)))?;
        let guard = Arc::clone(self);
        conn.progress_handler(INSTRUCTIONS, Some(move || guard.is_late()))?;
        // What a statement does after it rolled the transaction back must not become durable by itself.
        let guard = Arc::clone(self);
        conn.commit_hook(Some(move || guard.is_on()))
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    fn begin(&self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
        *self.undone.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.altered.store(false, Ordering::Release);
        self.on.store(true, Ordering::Release);
    }

    /// Why the work must be undone, if it must.
    fn end(&self) -> Option<Rollback> {
        let late = self.is_late();
        self.on.store(false, Ordering::Release);
        let undone = self.undone.lock().unwrap_or_else(PoisonError::into_inner).take();
        undone.or(late.then_some(Rollback::TimedOut))
    }

    fn undo(&self, why: Rollback) {
        self.undone.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    fn is_late(&self) -> bool {
        let deadline = *self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let late = self.is_on() && deadline.is_some_and(|deadline| Instant::now() > deadline);
        if late {
            self.undo(Rollback::TimedOut);
        }
        late
    }

    fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        if !self.is_on() {
            return Authorization::Allow;
        }
        if matches!(context.action, AuthAction::AlterTable { .. }) {
            self.altered.store(true, Ordering::Release);
        }
        match self.refusal(&context.action) {
            None => Authorization::Allow,
            Some(reason) => {
                self.undo(Rollback::Refused(format!("the SQL of a transaction step must not {reason}")));
                Authorization::Deny
            }
        }
    }

    /// What is wrong with an action of the step's SQL. Everything that is not known to be harmless is refused.
    fn refusal(&self, action: &AuthAction<'_>) -> Option<String> {
        match action {
            // An index that is made is filled by a reindexing.
            AuthAction::Select
            | AuthAction::Recursive
            | AuthAction::Read { .. }
            | AuthAction::Reindex { .. } => None,
            AuthAction::Function { function_name } => {
                function_name.eq_ignore_ascii_case("load_extension").then(|| "load an extension".into())
            }
            AuthAction::Insert { table_name }
            | AuthAction::Delete { table_name }
            | AuthAction::Update { table_name, .. }
            | AuthAction::DropTable { table_name }
            | AuthAction::DropView { view_name: table_name }
            | AuthAction::DropIndex { table_name, .. }
            | AuthAction::DropTrigger { table_name, .. }
            | AuthAction::AlterTable { table_name, .. } => self.own_table(table_name),
            AuthAction::CreateTable { table_name: name } | AuthAction::CreateView { view_name: name } => {
                self.own_table(name).or_else(|| reserved(name))
            }
            AuthAction::CreateIndex { index_name: name, table_name }
            | AuthAction::CreateTrigger { trigger_name: name, table_name } => {
                self.own_table(table_name).or_else(|| reserved(name))
            }
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
                Some("begin, commit or roll back: the engine does that with the step's outcome".into())
            }
            AuthAction::Pragma { pragma_name, pragma_value } => pragma(pragma_name, *pragma_value),
            AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
                Some("attach or detach another database".into())
            }
            AuthAction::CreateTempTable { .. }
            | AuthAction::CreateTempView { .. }
            | AuthAction::CreateTempIndex { .. }
            | AuthAction::CreateTempTrigger { .. } => {
                Some("create temporary objects: they would outlive the step".into())
            }
            AuthAction::CreateVtable { .. } | AuthAction::DropVtable { .. } => {
                Some("create or drop virtual tables: do it with a connection of your own".into())
            }
            other => Some(format!("do this: {other:?}")),
        }
    }

    fn own_table(&self, name: &str) -> Option<String> {
        self.own
            .contains(&name.to_ascii_lowercase())
            .then(|| format!("change `{name}`, which belongs to the engine"))
    }
}

fn reserved(name: &str) -> Option<String> {
    let kept = schema::RESERVED;
    schema::is_reserved(name)
        .then(|| format!("name something `{name}`: names in `{kept}` are kept for the engine"))
}

/// Full-text search asks for `data_version`, `ALTER TABLE` for `quick_check`; the others only look.
fn pragma(name: &str, value: Option<&str>) -> Option<String> {
    let harmless = match name {
        "data_version" => value.is_none(),
        "quick_check" | "table_info" | "table_xinfo" | "index_list" | "index_info" | "foreign_key_list" => {
            true
        }
        _ => false,
    };
    (!harmless).then(|| format!("use `PRAGMA {name}`"))
}
