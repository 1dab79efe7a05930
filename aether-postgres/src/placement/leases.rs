//! Workers in several databases: each database has a lease of its own.
//!
//! Promise: a worker renews in every database, by the same number. One that cannot reach a database loses, after its
//! lease, the runs that it holds there and no other; until it has renewed there again, no body of those runs begins. Who
//! watches a worker sees the lowest of its numbers, so that a lease which is not renewed in one database is seen there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aether_core::id::WorkerId;
use aether_core::store::{ClaimRequest, Lease, LostRun, StoreError, WorkerRecord};
use futures_util::future::join_all;

use crate::database::Database;
use crate::placement::shared::{REACH, Shared};

/// For how long a database that did not answer is not asked where it can be done without.
const REST: Duration = Duration::from_secs(1);

/// The renewals that this process has made.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    /// The highest number of each worker.
    numbers: HashMap<WorkerId, i64>,
    /// Where the last renewal of a worker failed.
    failed: HashSet<(WorkerId, usize)>,
}

/// Whether a database answers.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    silent_since: Mutex<Option<Instant>>,
}

impl Reach {
    fn is_open(&self) -> bool {
        let since = *self.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_none_or(|since| since.elapsed() >= REST)
    }

    fn note(&self, answers: bool) {
        let since = (!answers).then(Instant::now);
        *self.silent_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// An answer of one of several databases, within the time that the others can wait.
pub(crate) async fn in_time<T>(
    database: &Database,
    time: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = match tokio::time::timeout(time, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let reason = format!("it has not answered for {time:?}");
            Err(StoreError::Unavailable { store: database.name.to_string(), reason })
        }
    };
    database.reach.note(!matches!(answer, Err(StoreError::Unavailable { .. })));
    answer
}

impl Shared {
    /// The databases to be asked for what workers do all the time: all that answer, or else all.
    pub(crate) fn reachable(&self) -> Vec<(usize, &std::sync::Arc<Database>)> {
        let all = || self.all().iter().enumerate();
        let open: Vec<_> = all().filter(|(_, database)| database.reach.is_open()).collect();
        if open.is_empty() { all().collect() } else { open }
    }

    /// See [`Store::renew`](aether_core::store::Store::renew). Fails where no database could be reached.
    pub(crate) async fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        noticed: &[LostRun],
    ) -> Result<Vec<LostRun>, StoreError> {
        if !self.is_sharded() {
            return self.home().renew(worker, lease, noticed).await;
        }
        let number = self.renewals().numbers.get(worker).map_or(0, |number| number.saturating_add(1));
        let time = (lease / 8).min(REACH);
        let renew = |database: &std::sync::Arc<Database>| {
            let database = database.clone();
            async move { in_time(&database, time, database.renew_to(worker, lease, noticed, number)).await }
        };
        let answers = join_all(self.all().iter().map(renew)).await;
        let mut renewals = self.renewals();
        let (mut lost, mut failure, mut reached) = (Vec::new(), None, false);
        for (number, answer) in answers.into_iter().enumerate() {
            let place = (worker.clone(), number);
            match answer {
                Ok((count, runs)) => {
                    reached = true;
                    renewals.failed.remove(&place);
                    let highest = renewals.numbers.entry(worker.clone()).or_default();
                    *highest = count.max(*highest);
                    lost.extend(runs);
                }
                Err(error) => {
                    tracing::warn!(%worker, %error, "a worker could not renew its leases in one database");
                    renewals.failed.insert(place);
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if !reached => Err(error),
            _ => Ok(lost),
        }
    }

    /// See [`Store::claim`](aether_core::store::Store::claim). The databases are asked in turn. What one of them gave is given
    /// although another one fails.
    pub(crate) async fn claim(&self, request: ClaimRequest) -> Result<Vec<Lease>, StoreError> {
        if !self.is_sharded() {
            return self.home().claim(&request).await;
        }
        let (mut leases, mut failure, mut answered) = (Vec::new(), None, false);
        let reachable: Vec<usize> = self.reachable().into_iter().map(|(number, _)| number).collect();
        for (number, database) in self.in_turn() {
            let limit = request.limit.saturating_sub(leases.len());
            if !reachable.contains(&number) || (limit == 0 && request.adopt.is_empty()) {
                continue;
            }
            let request = ClaimRequest { limit, ..request.clone() };
            // A claim that is dropped counts as one whose answer was lost: the next one looks for its runs.
            match in_time(database, REACH, database.claim(&request)).await {
                Ok(more) => {
                    answered = true;
                    leases.extend(more);
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if !answered => Err(error),
            _ => Ok(leases),
        }
    }

    fn renewals(&self) -> std::sync::MutexGuard<'_, Renewals> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Store::is_renewed`](aether_core::store::Store::is_renewed).
    pub(crate) fn is_renewed(&self, worker: &WorkerId, run: &str) -> bool {
        if !self.is_sharded() {
            return true;
        }
        let number = self.map.spot(crate::shard::shard(run)).database;
        !self.renewals().failed.contains(&(worker.clone(), number))
    }

    /// The worker has retired.
    pub(crate) fn forget_worker(&self, worker: &WorkerId) {
        let mut renewals = self.renewals();
        renewals.numbers.remove(worker);
        renewals.failed.retain(|(known, _)| known != worker);
    }

    /// Workers that hold runs. A database where no worker of this process could renew is left out: in the same time the
    /// others may not have been able to, either.
    pub(crate) async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        if !self.is_sharded() {
            return self.home().workers().await;
        }
        let failed: HashSet<usize> = self.renewals().failed.iter().map(|(_, number)| *number).collect();
        let (mut workers, mut failure): (BTreeMap<String, WorkerRecord>, _) = (BTreeMap::new(), None);
        let mut answered = false;
        for (_, database) in self.reachable().into_iter().filter(|(number, _)| !failed.contains(number)) {
            match in_time(database, REACH, database.workers()).await {
                Ok(there) => {
                    answered = true;
                    there.into_iter().for_each(|worker| merge(&mut workers, worker));
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if !answered => Err(error),
            _ => Ok(workers.into_values().collect()),
        }
    }
}

fn merge(workers: &mut BTreeMap<String, WorkerRecord>, worker: WorkerRecord) {
    let id = worker.id.as_str().to_owned();
    match workers.get_mut(&id) {
        Some(known) => {
            known.renewals = known.renewals.min(worker.renewals);
            known.lease = known.lease.max(worker.lease);
        }
        None => drop(workers.insert(id, worker)),
    }
}

/// What those databases answer that can be reached; fails where none does.
macro_rules! reached {
    ($shared:expr, |$database:ident| $ask:expr) => {{
        let (mut answers, mut failure) = (Vec::new(), None);
        let several = $shared.is_sharded();
        for (_, $database) in $shared.reachable() {
            let answer = match several {
                true => {
                    $crate::placement::leases::in_time($database, $crate::placement::shared::REACH, $ask).await
                }
                false => $ask.await,
            };
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if answers.is_empty() => return Err(error),
            _ => answers,
        }
    }};
}
pub(crate) use reached;
