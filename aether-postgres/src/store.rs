//! The store itself: every operation of the contract, asked of the database that has the run, or of all of them.
//!
//! Promise: nothing here blocks an async worker. Appends and creations are queued before the call returns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aether_core::id::{CodeId, CommandId, Epoch, IdempotencyKey, Position, RunId, WorkerId};
use aether_core::journal::{LargeValue, StoredFrame};
use aether_core::measures::Batches;
use aether_core::payload::Payload;
use aether_core::queue::{LimitPattern, Serves};
use aether_core::store::ledger::{LedgerEntry, Reservation};
use aether_core::store::{
    Append, AppendError, ClaimRequest, Created, Cursor, DamagedRun, Decision, DefinitionRecord, DueSchedules,
    DueStarts, Durability, EndedRuns, ForeignRuns, KeyedStart, KnownWorker, Lease, Limit, ListedWait,
    LostRun, Message, NewRun, OpenWait, Purged, QueuePosition, Recode, RunFilter, RunRecord, RunRow,
    ScheduleRecord, Sent, Serving, Snapshot, Store, StoreClock, StoreError, StoredEffect, StreamItem,
    StreamWrite, Unread, WaitFilter, WorkerRecord,
};
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::clock::LastPlace;
use crate::database::Database;
use crate::error::LostAnswer;
use crate::notices::Notices;
use crate::opening::Opening;
use crate::options::PostgresOptions;
use crate::placement::leases::{all, each, reached};
use crate::placement::search::at;
use crate::placement::shared::Shared;
use crate::placement::{family, join};
use crate::streams::write_streams;

/// A store in one or several Postgres databases. Needs a tokio runtime; [`Store::close`] writes what is queued.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) shared: Arc<Shared>,
}

impl PostgresStore {
    /// Connects to the database that a connection string names, as `postgres://user@host/database` or as
    /// `host=.. dbname=..`, and creates or migrates its tables.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the server cannot be reached, refuses the account, or has no such database, and
    /// [`StoreError::NewerSchema`] when a newer build has written it.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_with(url, PostgresOptions::default()).await
    }

    /// As [`PostgresStore::connect`], with other than the default options.
    ///
    /// # Errors
    /// As [`PostgresStore::connect`].
    ///
    /// ```no_run
    /// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
    /// use aether_postgres::{PostgresOptions, PostgresStore};
    /// let behind_a_pooler = PostgresOptions::new().pooler(true);
    /// let store = PostgresStore::connect_with("postgres://ann@pgbouncer:6432/shop", behind_a_pooler).await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect_with(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let database = Database::open(url, options).await?;
        let opening = Opening::of(&database);
        join::alone(&database).await?;
        let shared = Shared::one(database);
        opening.done();
        Notices::start(&shared);
        Ok(Self { shared })
    }

    /// Connects to several databases that are one store, each by a name that it keeps for good. The first is the home of
    /// what belongs to no run, such as schedules. It may hold runs already; the others begin empty, and get runs when
    /// buckets are moved to them: [`PostgresStore::rebalance`].
    ///
    /// Every process of the store names the same databases, the first one first.
    ///
    /// # Errors
    /// As [`PostgresStore::connect`], for each of them; and [`StoreError::Open`] for a database that has another name, is
    /// part of another store, or has runs of its own.
    pub async fn connect_all<N, U>(databases: impl IntoIterator<Item = (N, U)>) -> Result<Self, StoreError>
    where
        N: Into<String>,
        U: AsRef<str>,
    {
        Self::connect_all_with(databases, PostgresOptions::default()).await
    }

    /// As [`PostgresStore::connect_all`], with other than the default options, which are those of each database.
    ///
    /// # Errors
    /// As [`PostgresStore::connect_all`].
    pub async fn connect_all_with<N, U>(
        databases: impl IntoIterator<Item = (N, U)>,
        options: PostgresOptions,
    ) -> Result<Self, StoreError>
    where
        N: Into<String>,
        U: AsRef<str>,
    {
        let (mut opened, mut opening, places) = (Vec::new(), Vec::new(), LastPlace::default());
        for (name, url) in databases {
            let database = Database::open_beside(url.as_ref(), options.clone(), places.clone()).await?;
            opening.push(Opening::of(&database));
            opened.push((name.into(), database));
        }
        let shared = join::several(opened).await?;
        opening.into_iter().for_each(Opening::done);
        Notices::start(&shared);
        Ok(Self { shared })
    }

    /// Every database.
    pub(crate) fn databases(&self) -> &[Arc<Database>] {
        self.shared.all()
    }

    fn of(&self, run: &RunId) -> &Arc<Database> {
        self.shared.of(run.as_str())
    }

    fn home(&self) -> &Arc<Database> {
        self.shared.home()
    }

    /// Creates a run, where its queue can be had. Where it is refused, the values that were stored for it go.
    fn create_run(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
        decision: Option<Decision>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        let (id, creation) = (new.id.clone(), self.create_or_refuse(new, ledger, decision));
        Box::pin(async move {
            let created = creation.await?;
            if matches!(created, Created::ParentLost | Created::DecisionGone | Created::OverLimit { .. }) {
                let deleted: Result<bool, StoreError> =
                    async { at!(self.shared, id.as_str(), |db| db.delete_values(id.as_str())) }.await;
                // Nothing is wrong with the answer.
                if let Err(error) = deleted {
                    tracing::warn!(run = %id, %error, "the values of a start that was refused are left");
                }
            }
            Ok(created)
        })
    }

    fn create_or_refuse(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
        decision: Option<Decision>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        if new.terms.queue.is_some()
            && let Err(error) = self.queueing()
        {
            return Box::pin(std::future::ready(Err(error)));
        }
        if self.shared.is_sharded() {
            return family::create(&self.shared, new, ledger, decision);
        }
        let (id, checked, decided) = (new.id.clone(), new.parent_epoch.is_some(), decision.is_some());
        let created = self.home().clone().create(new, ledger, decision);
        Box::pin(async move {
            match created.await? {
                Some(created) => Ok(created),
                None if checked => Ok(Created::ParentLost),
                None if decided => Ok(Created::DecisionGone),
                None => Err(family::purged(self.home(), &id)),
            }
        })
    }

    /// The database of every queue. What limits count is counted in one transaction, so a store of several databases has no
    /// queues.
    fn queueing(&self) -> Result<&Arc<Database>, StoreError> {
        match self.databases() {
            [only] => Ok(only),
            _ => Err(StoreError::NoQueues { store: self.describe() }),
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        for database in self.shared.all() {
            database.finish();
        }
    }
}

/// At most `limit` of what several databases listed, in the order of `place`; 0 for all.
fn merged<T, K: Ord>(lists: Vec<Vec<T>>, limit: usize, place: impl Fn(&T) -> K) -> Vec<T> {
    let several = lists.len() > 1;
    let mut all: Vec<T> = lists.into_iter().flatten().collect();
    if several {
        all.sort_by_key(place);
    }
    if limit > 0 {
        all.truncate(limit);
    }
    all
}

impl Store for PostgresStore {
    /// The server's clock: with several databases that of the first.
    fn clock(&self) -> Option<Arc<dyn StoreClock>> {
        Some(self.home().clock.clone())
    }

    fn describe(&self) -> String {
        let name = &self.home().name;
        match self.shared.all().len() {
            ..=1 => name.to_string(),
            several => format!("{name} and {} more", several - 1),
        }
    }

    fn durability(&self) -> Durability {
        self.shared.all().iter().map(|database| database.durability()).min().unwrap_or(Durability::PowerLoss)
    }

    fn batches(&self) -> Option<Batches> {
        let all = self.shared.all().iter().map(|database| database.batches.read());
        Some(all.sum())
    }

    fn register(
        &self,
        worker: &WorkerId,
        lease: Duration,
        codes: Vec<CodeId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let worker = worker.clone();
        Box::pin(async move {
            let answers = each!(self, |db| db.register(&worker, lease, &codes));
            Ok(answers.into_iter().all(|new| new))
        })
    }

    fn codes_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<CodeId>, StoreError>> {
        let me = me.clone();
        Box::pin(async move {
            let codes = reached!(self.shared, |db| db.codes_elsewhere(&me));
            Ok(codes.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect())
        })
    }

    fn serve(&self, worker: &WorkerId, serves: Serves) -> BoxFuture<'_, Result<(), StoreError>> {
        let worker = worker.clone();
        Box::pin(async move {
            let _: Vec<()> = each!(self, |db| db.serve(&worker, &serves));
            Ok(())
        })
    }

    fn serving_elsewhere(&self, me: &WorkerId) -> BoxFuture<'_, Result<Vec<Serving>, StoreError>> {
        let me = me.clone();
        Box::pin(async move { Ok(reached!(self.shared, |db| db.serving_elsewhere(&me)).concat()) })
    }

    fn workers(&self) -> BoxFuture<'_, Result<Vec<WorkerRecord>, StoreError>> {
        Box::pin(async move { self.shared.workers().await })
    }

    fn known_workers(&self) -> BoxFuture<'_, Result<Vec<KnownWorker>, StoreError>> {
        Box::pin(async move {
            // A worker is registered in every database, and holds runs in each.
            let mut known: Vec<KnownWorker> = Vec::new();
            for worker in each!(self, |db| db.known_workers()).concat() {
                match known.iter_mut().find(|known| known.id == worker.id) {
                    Some(known) => known.runs = known.runs.saturating_add(worker.runs),
                    None => known.push(worker),
                }
            }
            Ok(known)
        })
    }

    fn retire(&self, worker: &WorkerId) -> BoxFuture<'_, Result<(), StoreError>> {
        let worker = worker.clone();
        Box::pin(async move {
            let retired = all!(self, |db| db.retire(&worker));
            // Behind the databases: a renewal that was still under way is noted by then.
            self.shared.forget_worker(&worker);
            retired
        })
    }

    fn unaware_owners(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<WorkerId>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.unaware_owners(&run)) })
    }

    fn transactions(&self) -> Option<&'static str> {
        Some(crate::work::step::NAME)
    }

    fn create(&self, new: NewRun) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.create_run(new, Vec::new(), None)
    }

    fn create_decided(&self, new: NewRun, decision: Decision) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.create_run(new, Vec::new(), Some(decision))
    }

    fn create_fork(
        &self,
        new: NewRun,
        ledger: Vec<LedgerEntry>,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.create_run(new, ledger, None)
    }

    fn append(&self, append: Append) {
        self.shared.append(append);
    }

    fn load(&self, run: &RunId, from: Position) -> BoxFuture<'_, Result<Vec<StoredFrame>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.load(&run, from)) })
    }

    fn load_page<'s>(
        &'s self,
        run: &RunId,
        from: Position,
        events: u64,
    ) -> BoxFuture<'s, Result<Vec<StoredFrame>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.load_page(&run, from, events)) })
    }

    fn last_frame(&self, run: &RunId) -> BoxFuture<'_, Result<Option<StoredFrame>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.last_frame(&run)) })
    }

    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.run_record(&run)) })
    }

    fn runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        Box::pin(async move {
            let lists = each!(self, |db| db.runs(&filter));
            Ok(merged(lists, filter.limit, |run| std::cmp::Reverse(run.place)))
        })
    }

    fn damaged_runs(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<DamagedRun>, StoreError>> {
        Box::pin(async move { Ok(each!(self, |db| db.damaged(&filter)).into_iter().flatten().collect()) })
    }

    fn run_rows(&self, filter: RunFilter) -> BoxFuture<'_, Result<Vec<RunRow>, StoreError>> {
        Box::pin(async move {
            let lists = each!(self, |db| db.run_rows(&filter));
            Ok(merged(lists, filter.limit, |run| std::cmp::Reverse(run.place)))
        })
    }

    fn count(&self, filter: RunFilter) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move { Ok(each!(self, |db| db.count(&filter)).into_iter().sum()) })
    }

    fn claim(&self, request: ClaimRequest) -> BoxFuture<'_, Result<Vec<Lease>, StoreError>> {
        Box::pin(async move { self.shared.claim(request).await })
    }

    fn is_renewed(&self, worker: &WorkerId, run: &RunId) -> bool {
        self.shared.is_renewed(worker, run.as_str())
    }

    fn is_renewed_everywhere(&self, worker: &WorkerId) -> bool {
        self.shared.is_renewed_everywhere(worker)
    }

    fn lapses(&self, worker: &WorkerId) -> u64 {
        self.shared.lapses(worker)
    }

    fn recode(&self, runs: Vec<Recode>) -> BoxFuture<'_, Result<usize, StoreError>> {
        // Each database has some of them.
        Box::pin(async move { Ok(reached!(self.shared, |db| db.recode(&runs)).into_iter().sum()) })
    }

    fn foreign(&self, query: ForeignRuns) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        Box::pin(async move {
            let lists = match query.due.is_some() {
                true => reached!(self.shared, |db| db.foreign(&query)),
                false => each!(self, |db| db.foreign(&query)),
            };
            Ok(merged(lists, query.limit, |run| run.place))
        })
    }

    fn put_definition(&self, definition: DefinitionRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.home().put_definition(&definition).await })
    }

    fn definitions(&self) -> BoxFuture<'_, Result<Vec<DefinitionRecord>, StoreError>> {
        Box::pin(async move { self.home().definitions().await })
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: Vec<LostRun>,
    ) -> BoxFuture<'_, Result<Vec<LostRun>, StoreError>> {
        let worker = worker.clone();
        Box::pin(async move { self.shared.renew(&worker, lease, &noticed).await })
    }

    fn release(
        &self,
        worker: &WorkerId,
        run: &RunId,
        epoch: Epoch,
        wake_at: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (worker, run) = (worker.clone(), run.clone());
        Box::pin(
            async move { at!(self.shared, run.as_str(), |db| db.release(&worker, &run, epoch, wake_at)) },
        )
    }

    fn hasten(&self, now: Timestamp, beyond: Timestamp) -> BoxFuture<'_, Result<usize, StoreError>> {
        Box::pin(async move { Ok(reached!(self.shared, |db| db.hasten(now, beyond)).into_iter().sum()) })
    }

    fn next_wake(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        Box::pin(async move { Ok(reached!(self.shared, |db| db.next_wake()).into_iter().flatten().min()) })
    }

    fn entry(
        &self,
        run: &RunId,
        key: &IdempotencyKey,
    ) -> BoxFuture<'_, Result<Option<LedgerEntry>, StoreError>> {
        let (run, key) = (run.clone(), key.clone());
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.entry(&run, &key)) })
    }

    fn reserve(
        &self,
        wanted: Reservation,
        replaces: Option<Reservation>,
    ) -> BoxFuture<'_, Result<Reservation, StoreError>> {
        Box::pin(async move {
            let reserved =
                at!(self.shared, &wanted.business_key, |db| db.reserve(&wanted, replaces.as_ref()))?;
            reserved.ok_or_else(|| StoreError::Unavailable {
                store: self.describe(),
                reason:
                    "the key is in another database of the store: open it with PostgresStore::connect_all"
                        .into(),
            })
        })
    }

    fn reservation(&self, business_key: &str) -> BoxFuture<'_, Result<Option<Reservation>, StoreError>> {
        let key = business_key.to_owned();
        Box::pin(async move { at!(self.shared, &key, |db| db.reservation(&key)) })
    }

    fn entries(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<LedgerEntry>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.entries(&run)) })
    }

    fn send(&self, run: &RunId, message: Message) -> BoxFuture<'_, Result<Sent, StoreError>> {
        let run = run.clone();
        Box::pin(async move {
            // The message of a try whose answer was lost may be in another database by now.
            let lost = LostAnswer::default();
            at!(self.shared, run.as_str(), |db| db.send(&run, &message, &lost))
        })
    }

    fn inbox(&self, run: &RunId, after: u64) -> BoxFuture<'_, Result<Vec<Message>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.inbox(&run, after)) })
    }

    fn unread<'s>(&'s self, run: &RunId) -> BoxFuture<'s, Result<Unread, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.unread(&run)) })
    }

    fn unread_waiting(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(RunRecord, u64)>, StoreError>> {
        Box::pin(async move {
            let lists = reached!(self.shared, |db| db.unread_waiting(after, limit));
            Ok(merged(lists, limit, |(run, _)| std::cmp::Reverse(run.place)))
        })
    }

    fn waits(&self, filter: WaitFilter) -> BoxFuture<'_, Result<Vec<ListedWait>, StoreError>> {
        Box::pin(async move {
            let lists = each!(self, |db| db.waits(&filter));
            Ok(merged(lists, filter.limit, |wait| wait.place))
        })
    }

    fn list_waits<'s>(
        &'s self,
        run: &RunId,
        next: Position,
        waits: Vec<OpenWait>,
    ) -> BoxFuture<'s, Result<bool, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.list_waits(&run, next, &waits)) })
    }

    fn held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, Epoch)>, StoreError>> {
        let worker = worker.clone();
        Box::pin(async move { Ok(reached!(self.shared, |db| db.held(&worker)).concat()) })
    }

    fn unread_held(&self, worker: &WorkerId) -> BoxFuture<'_, Result<Vec<(RunId, u64)>, StoreError>> {
        let worker = worker.clone();
        Box::pin(async move { Ok(reached!(self.shared, |db| db.unread_held(&worker)).concat()) })
    }

    fn save_progress(
        &self,
        run: &RunId,
        epoch: Epoch,
        command: &CommandId,
        progress: Payload,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, command) = (run.clone(), command.clone());
        Box::pin(async move {
            at!(self.shared, run.as_str(), |db| db.save_progress(&run, epoch, &command, &progress))
        })
    }

    fn progress(
        &self,
        run: &RunId,
        command: &CommandId,
    ) -> BoxFuture<'_, Result<Option<Payload>, StoreError>> {
        let (run, command) = (run.clone(), command.clone());
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.progress(&run, &command)) })
    }

    fn write_streams(
        &self,
        writes: Vec<StreamWrite>,
    ) -> BoxFuture<'_, Result<Vec<Option<Vec<StreamItem>>>, StoreError>> {
        Box::pin(async move { write_streams(&self.shared, &writes).await })
    }

    fn open_streams(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<CommandId>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.open_streams(&run)) })
    }

    fn stream(
        &self,
        run: &RunId,
        stream: &str,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StreamItem>, StoreError>> {
        let (run, stream) = (run.clone(), stream.to_owned());
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.stream(&run, &stream, after, limit)) })
    }

    fn put_blob(&self, run: &RunId, hash: &str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        Box::pin(async move {
            at!(self.shared, run.as_str(), |db| db.put_blob(run.as_str(), &hash, &bytes)).map(drop)
        })
    }

    fn blob(&self, run: &RunId, hash: &str) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        let (run, hash) = (run.clone(), hash.to_owned());
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.blob(run.as_str(), &hash)) })
    }

    fn put_effect(
        &self,
        effect: StoredEffect,
        epoch: Epoch,
        values: Vec<LargeValue>,
    ) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(
            async move { at!(self.shared, effect.run.as_str(), |db| db.put_effect(&effect, epoch, &values)) },
        )
    }

    fn effects(&self, run: &RunId) -> BoxFuture<'_, Result<Vec<StoredEffect>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.effects(&run)) })
    }

    fn save_snapshot(&self, run: &RunId, snapshot: Snapshot) -> BoxFuture<'_, Result<(), StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.save_snapshot(&run, &snapshot)) })
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'_, Result<Option<Snapshot>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { at!(self.shared, run.as_str(), |db| db.snapshot(&run)) })
    }

    fn put_schedule(
        &self,
        schedule: ScheduleRecord,
        replaces: u64,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move { self.home().put_schedule(&schedule, replaces).await })
    }

    fn schedules(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        let after = after.map(str::to_owned);
        Box::pin(async move { self.home().schedules(after.as_deref(), limit).await })
    }

    fn schedule(&self, name: &str) -> BoxFuture<'_, Result<Option<ScheduleRecord>, StoreError>> {
        let name = name.to_owned();
        Box::pin(async move { self.home().schedule(&name).await })
    }

    fn due_schedules(&self, query: DueSchedules) -> BoxFuture<'_, Result<Vec<ScheduleRecord>, StoreError>> {
        Box::pin(async move { self.home().due_schedules(&query).await })
    }

    fn remove_schedule(&self, name: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        Box::pin(async move { self.home().remove_schedule(&name).await })
    }

    fn put_limit(&self, limit: Limit) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.queueing()?.put_limit(&limit).await })
    }

    fn remove_limit(&self, pattern: &LimitPattern, kind: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        let (pattern, kind) = (pattern.clone(), kind.to_owned());
        Box::pin(async move { self.queueing()?.remove_limit(&pattern, &kind).await })
    }

    fn limits(&self) -> BoxFuture<'_, Result<Vec<Limit>, StoreError>> {
        Box::pin(async move { self.queueing()?.limits().await })
    }

    fn queue_position(
        &self,
        run: &RunId,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Option<QueuePosition>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { self.of(&run).queue_position(&run, now).await })
    }

    fn keyed_start(&self, name: &str) -> BoxFuture<'_, Result<Option<KeyedStart>, StoreError>> {
        let name = name.to_owned();
        Box::pin(async move { self.home().keyed_start(&name).await })
    }

    fn put_keyed_start(&self, start: KeyedStart, replaces: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move { self.home().put_keyed_start(&start, replaces).await })
    }

    fn remove_keyed_start(&self, name: &str, revision: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        let name = name.to_owned();
        Box::pin(async move { self.home().remove_keyed_start(&name, revision).await })
    }

    fn due_starts(&self, query: DueStarts) -> BoxFuture<'_, Result<Vec<KeyedStart>, StoreError>> {
        Box::pin(async move { self.home().due_starts(&query).await })
    }

    fn ended(&self, query: EndedRuns) -> BoxFuture<'_, Result<Vec<(u64, RunRecord)>, StoreError>> {
        Box::pin(async move {
            let lists = each!(self, |db| db.ended(&query));
            Ok(merged(lists, query.limit, |(place, _)| *place))
        })
    }

    fn purge(&self, run: &RunId, created_at: Option<Timestamp>) -> BoxFuture<'_, Result<Purged, StoreError>> {
        let run = run.clone();
        Box::pin(async move { crate::purge::purge(&self.shared, &run, created_at).await })
    }

    fn delete_snapshots(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let _: Vec<()> = each!(self, |db| db.delete_snapshots());
            Ok(())
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { all!(self, |db| db.close_writers()) })
    }
}
