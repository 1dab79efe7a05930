//! Workers in several databases: each database has a lease of its own.
//!
//! Promise: a worker renews in every database, by the same number. One that cannot reach a database loses, after its
//! lease, the runs that it holds there and no other; until it has renewed there again, no body of those runs begins. Where
//! the numbers of a worker differ, whoever watches it sees each of them with its database, and claims by it there alone: what
//! cannot be taken over in one database keeps nothing back in another.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aether_core::id::{RunId, WorkerId};
use aether_core::store::{ClaimRequest, Lease, LostRun, SilentWorker, StoreError, WorkerRecord};
use futures_util::future::join_all;

use crate::claimed::Given;
use crate::database::Database;
use crate::placement::shared::{REACH, Shared};

/// For how long a database that did not answer is not asked where it can be done without.
const REST: Duration = Duration::from_secs(1);

/// The renewals that this process has made.
#[derive(Debug, Default)]
pub(crate) struct Renewals(HashMap<WorkerId, Renewing>);

/// The renewals of one worker.
#[derive(Debug, Default)]
struct Renewing {
    /// Its highest number.
    number: i64,
    /// Where the last one failed.
    failed: HashSet<usize>,
    /// How often one failed in one of the databases, or succeeded there again.
    lapses: u64,
    /// When the last one was answered, and the lease that it was for.
    last: Option<(Instant, Duration)>,
}

impl Renewing {
    /// A renewal in a database has succeeded, or not.
    fn note(&mut self, database: usize, succeeded: bool) {
        let was_held = succeeded && !self.failed.remove(&database);
        if !succeeded {
            self.failed.insert(database);
        }
        if !was_held {
            self.lapses = self.lapses.saturating_add(1);
        }
    }

    /// How long ago it renewed, in leases.
    fn age(&self, now: Instant) -> f64 {
        let age = |(at, lease): (Instant, Duration)| {
            now.saturating_duration_since(at).as_secs_f64() / lease.as_secs_f64()
        };
        self.last.map_or(f64::INFINITY, age)
    }
}

impl Renewals {
    fn of(&self, worker: &WorkerId) -> Option<&Renewing> {
        self.0.get(worker)
    }

    /// Whether no worker of this process could renew in a database. One that has not renewed for a lease says nothing of it
    /// any more: it may have ended in whatever way.
    fn is_blind(&self, database: usize, now: Instant) -> bool {
        let failed = |of: &Renewing| of.failed.contains(&database);
        // As old as a success is in which two renewals came late.
        let can = self.0.values().any(|of| !failed(of) && of.age(now) <= 0.5);
        !can && self.0.values().any(|of| failed(of) && of.age(now) <= 1.0)
    }
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
        let number = self.renewals().of(worker).map_or(0, |known| known.number.saturating_add(1));
        let time = (lease / 8).min(REACH);
        let renew = |database: &std::sync::Arc<Database>| {
            let database = database.clone();
            async move { in_time(&database, time, database.renew_to(worker, lease, noticed, number)).await }
        };
        let answers = join_all(self.all().iter().map(renew)).await;
        let mut renewals = self.renewals();
        let known = renewals.0.entry(worker.clone()).or_default();
        known.last = Some((Instant::now(), lease));
        let (mut lost, mut failure, mut reached) = (Vec::new(), None, false);
        for (number, answer) in answers.into_iter().enumerate() {
            known.note(number, answer.is_ok());
            match answer {
                Ok((count, runs)) => {
                    reached = true;
                    known.number = count.max(known.number);
                    lost.extend(runs);
                }
                Err(error) => {
                    tracing::warn!(%worker, %error, "a worker could not renew its leases in one database");
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if !reached => Err(error),
            _ => Ok(lost),
        }
    }

    /// See [`Store::claim`](aether_core::store::Store::claim). What silent workers hold comes first, from each database in turn;
    /// then, of the due runs of all databases, those that have been due for longest; then, in turn again, what is named, and
    /// what is there when others were quicker. What one database gave is given although another one fails.
    pub(crate) async fn claim(&self, request: ClaimRequest) -> Result<Vec<Lease>, StoreError> {
        if !self.is_sharded() {
            return self.home().claim(&request).await;
        }
        let reachable: HashSet<usize> = self.reachable().into_iter().map(|(number, _)| number).collect();
        let asked: Vec<_> = self.in_turn().filter(|(number, _)| reachable.contains(number)).collect();
        let mut round = Round { databases: asked.len(), asked, ..Round::default() };
        let is_named = !request.adopt.is_empty() || request.only.is_some();
        if !is_named && !request.silent.is_empty() {
            round.take_over(&request).await;
        }
        if is_named || round.claim_due(&request).await {
            round.claim_in_turn(&request).await;
        }
        round.end()
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
        self.renewals().of(worker).is_none_or(|known| !known.failed.contains(&number))
    }

    /// See [`Store::is_renewed_everywhere`](aether_core::store::Store::is_renewed_everywhere).
    pub(crate) fn is_renewed_everywhere(&self, worker: &WorkerId) -> bool {
        self.renewals().of(worker).is_none_or(|known| known.failed.is_empty())
    }

    /// See [`Store::lapses`](aether_core::store::Store::lapses).
    pub(crate) fn lapses(&self, worker: &WorkerId) -> u64 {
        self.renewals().of(worker).map_or(0, |known| known.lapses)
    }

    /// The worker has retired.
    pub(crate) fn forget_worker(&self, worker: &WorkerId) {
        self.renewals().0.remove(worker);
    }

    /// Workers that hold runs. A database where no worker of this process can renew is left out: in the same time the others
    /// may not have been able to, either.
    pub(crate) async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        if !self.is_sharded() {
            return self.home().workers().await;
        }
        let blind = |number: usize| self.renewals().is_blind(number, Instant::now());
        let seen: Vec<_> = self.reachable().into_iter().filter(|(number, _)| !blind(*number)).collect();
        let (mut lists, mut failure) = (Vec::new(), None);
        for (number, database) in seen {
            match in_time(database, REACH, database.workers()).await {
                Ok(there) => lists.push((number, there)),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if lists.is_empty() => Err(error),
            _ => Ok(merged(lists)),
        }
    }
}

/// One claim in several databases.
#[derive(Default)]
struct Round<'s> {
    /// Those that are asked, in turn. One that does not answer is not asked once more.
    asked: Vec<(usize, &'s Arc<Database>)>,
    databases: usize,
    leases: Vec<Lease>,
    parts: Vec<(&'s Arc<Database>, Given<'s>)>,
    failures: BTreeMap<usize, StoreError>,
}

impl<'s> Round<'s> {
    /// As `request`, for as many runs as there is still room for.
    fn rest(&self, request: &ClaimRequest) -> ClaimRequest {
        ClaimRequest { limit: request.limit.saturating_sub(self.leases.len()), ..request.clone() }
    }

    /// What one database gave; a claim that is dropped counts as one whose answer was lost: the next one looks for its runs.
    async fn answer<T>(
        &mut self,
        (number, database): (usize, &'s Arc<Database>),
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Option<T> {
        let answer = in_time(database, REACH, answer).await;
        answer.map_err(|error| self.failures.insert(number, error)).ok()
    }

    fn leave_out_failed(&mut self) {
        self.asked.retain(|(number, _)| !self.failures.contains_key(number));
    }

    /// What an earlier claim got whose answer was lost is found as often as it is asked for.
    fn add(&mut self, leases: impl IntoIterator<Item = Lease>) {
        let known: HashSet<RunId> = self.leases.iter().map(|lease| lease.run.id.clone()).collect();
        self.leases.extend(leases.into_iter().filter(|lease| !known.contains(&lease.run.id)));
    }

    /// What silent workers hold, before anything that is due: a backlog would keep it back for as long as it lasts.
    async fn take_over(&mut self, request: &ClaimRequest) {
        for at in self.asked.clone() {
            let request = self.rest(request);
            if let Some((leases, given)) = self.answer(at, at.1.take_over_parts(&request)).await {
                self.parts.push((at.1, given));
                self.add(leases);
            }
        }
        self.leave_out_failed();
    }

    /// The longest due runs of all databases. Returns whether another worker has been quicker in one of them, so that there
    /// may be more elsewhere.
    async fn claim_due(&mut self, request: &ClaimRequest) -> bool {
        let request = ClaimRequest { silent: Vec::new(), ..self.rest(request) };
        let mut due = BTreeMap::new();
        for at in self.asked.clone() {
            if let Some(times) = self.answer(at, at.1.first_due(&request)).await {
                due.insert(at.0, times);
            }
        }
        self.leave_out_failed();
        let (shares, mut claimed, mut is_short) = (shares(&due, request.limit), Vec::new(), false);
        for at in self.asked.clone() {
            let times = due.remove(&at.0).unwrap_or_default();
            let limit = shares.get(&at.0).copied().unwrap_or(0);
            let request = ClaimRequest { limit, ..request.clone() };
            if let Some((leases, given)) = self.answer(at, at.1.claim_parts(&request)).await {
                self.parts.push((at.1, given));
                is_short |= leases.len() < limit;
                let times = if leases.len() < limit { Vec::new() } else { times };
                claimed.extend(times.into_iter().chain(std::iter::repeat(i64::MAX)).zip(leases));
            }
        }
        self.leave_out_failed();
        claimed.sort_by_key(|(due, _)| *due);
        self.add(claimed.into_iter().map(|(_, lease)| lease));
        is_short
    }

    /// Whatever `request` asks for, until there is no room.
    async fn claim_in_turn(&mut self, request: &ClaimRequest) {
        for at in self.asked.clone() {
            let request = self.rest(request);
            if request.limit == 0 && request.adopt.is_empty() {
                break;
            }
            if let Some((leases, given)) = self.answer(at, at.1.claim_parts(&request)).await {
                self.parts.push((at.1, given));
                self.add(leases);
            }
        }
    }

    fn end(mut self) -> Result<Vec<Lease>, StoreError> {
        if self.leases.is_empty()
            && self.failures.len() >= self.databases
            && let Some((_, error)) = self.failures.pop_last()
        {
            return Err(error);
        }
        self.parts.into_iter().for_each(|(database, given)| database.delivered(given));
        Ok(self.leases)
    }
}

/// How many of the first due runs each database has.
fn shares(due: &BTreeMap<usize, Vec<i64>>, limit: usize) -> HashMap<usize, usize> {
    let mut all: Vec<(i64, usize)> =
        due.iter().flat_map(|(number, times)| times.iter().map(|time| (*time, *number))).collect();
    all.sort_unstable();
    let mut shares = HashMap::new();
    all.into_iter().take(limit).for_each(|(_, number)| *shares.entry(number).or_default() += 1);
    shares
}

/// Where in a number of renewals its database stands, from 1 on; 0 where the number is that of all.
const DATABASE: u32 = 48;

/// The workers that each database lists. One whose numbers are the same is listed once, any other one for each database.
fn merged(lists: Vec<(usize, Vec<WorkerRecord>)>) -> Vec<WorkerRecord> {
    let mut workers: BTreeMap<String, Vec<(usize, WorkerRecord)>> = BTreeMap::new();
    for (number, list) in lists {
        for worker in list {
            workers.entry(worker.id.as_str().to_owned()).or_default().push((number, worker));
        }
    }
    let listed = |seen: Vec<(usize, WorkerRecord)>| {
        let numbers: HashSet<u64> = seen.iter().map(|(_, worker)| worker.renewals).collect();
        let (lease, several) = (seen.iter().filter_map(|(_, worker)| worker.lease).max(), numbers.len() > 1);
        let of = move |(number, worker): (usize, WorkerRecord)| {
            let database = if several { number as u64 + 1 } else { 0 };
            WorkerRecord { renewals: worker.renewals | database << DATABASE, lease, ..worker }
        };
        seen.into_iter().take(if several { usize::MAX } else { 1 }).map(of).collect::<Vec<_>>()
    };
    workers.into_values().flat_map(listed).collect()
}

/// The number that a worker must have in a database to be silent there; `None` where it is that of another database.
fn renewals_in(database: usize, renewals: u64) -> Option<u64> {
    let of = renewals >> DATABASE;
    (of == 0 || of == database as u64 + 1).then_some(renewals & ((1 << DATABASE) - 1))
}

impl Database {
    /// Those of some silent workers that are silent here, and their numbers, as two arrays.
    pub(crate) fn silent_here<'w>(&self, workers: &'w [SilentWorker]) -> (Vec<&'w str>, Vec<i64>) {
        let number = self.peers.get().map_or(0, |peers| peers.number);
        let here =
            |worker: &'w SilentWorker| Some((worker.id.as_str(), renewals_in(number, worker.renewals)?));
        workers.iter().filter_map(here).map(|(id, renewals)| (id, crate::row::int(renewals))).unzip()
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
                    $crate::placement::leases::in_time($database, $crate::placement::shared::REACH, $ask)
                        .await
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

/// The answers of every database; fails where one does.
macro_rules! each {
    ($store:ident, |$database:ident| $ask:expr) => {{
        let mut answers = Vec::new();
        for $database in $store.shared.all() {
            answers.push($ask.await?);
        }
        answers
    }};
}
pub(crate) use each;

/// Asks every database, whatever another one answers; the first error, if there is one.
macro_rules! all {
    ($store:ident, |$database:ident| $ask:expr) => {{
        let answers = $store.shared.all().iter().map(|$database| $ask);
        let answers: Vec<Result<(), aether_core::store::StoreError>> =
            futures_util::future::join_all(answers).await;
        answers.into_iter().collect::<Result<(), _>>()
    }};
}
pub(crate) use all;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_due_runs_of_all_databases_are_claimed() {
        let due = BTreeMap::from([(0, vec![1, 4, 5]), (1, vec![2, 3, 9]), (2, Vec::new())]);
        assert_eq!(shares(&due, 3), HashMap::from([(0, 1), (1, 2)]));
        assert_eq!(shares(&due, 100), HashMap::from([(0, 3), (1, 3)]));
    }

    /// A look at a run in one database is older than a lapse in another one, to which the run is moved.
    #[test]
    fn a_lapse_in_any_database_is_one_more_of_the_worker() {
        let (mut renewals, mut before) = (Renewing::default(), 0);
        let mut rises = |database, succeeded| {
            renewals.note(database, succeeded);
            std::mem::replace(&mut before, renewals.lapses) < renewals.lapses
        };
        assert!(!rises(0, true) && !rises(1, true), "nothing has failed yet");
        assert!(rises(0, false) && !rises(1, true));
        assert!(rises(0, false), "it may have been taken since the last one, and moved");
        assert!(rises(0, true) && !rises(0, true));
        assert!(rises(1, false) && !rises(0, true) && rises(1, true));
        assert_eq!(renewals.failed.len(), 0);
    }

    #[test]
    fn a_database_is_left_out_while_a_worker_fails_there_and_none_succeeds() {
        const LEASE: Duration = Duration::from_secs(60);
        let (mut renewals, now) = (Renewals::default(), Instant::now() + LEASE * 10);
        let mut renews = |name: &str, ago: Duration, fails: bool| {
            let known = renewals.0.entry(WorkerId::from(name.to_owned())).or_default();
            known.last = Some((now - ago, LEASE));
            known.note(0, true);
            known.note(1, !fails);
            (renewals.is_blind(0, now), renewals.is_blind(1, now))
        };
        assert_eq!(renews("a", LEASE / 4, true), (false, true));
        assert_eq!(renews("b", LEASE / 4, false), (false, false), "it could have renewed there");
        assert_eq!(renews("b", LEASE * 3 / 4, false), (false, true), "that was long ago");
        assert_eq!(renews("b", LEASE / 4, true), (false, true));
        assert_eq!(renews("a", LEASE * 2, true), (false, true));
        assert_eq!(renews("b", LEASE * 2, true), (false, false), "they have ended without a word");
        assert_eq!(renews("c", LEASE / 4, false), (false, false));
    }

    #[test]
    fn numbers_that_differ_are_those_of_their_databases() {
        let worker =
            |renewals, lease| WorkerRecord { id: "w".to_owned().into(), renewals, lease: Some(lease) };
        let second = Duration::from_secs(1);
        let same = merged(vec![(0, vec![worker(7, second)]), (1, vec![worker(7, second * 2)])]);
        assert_eq!(same, [worker(7, second * 2)]);
        let apart = merged(vec![(0, vec![worker(7, second)]), (2, vec![worker(3, second)])]);
        assert_eq!(apart.len(), 2);
        let there = |database, of: &WorkerRecord| renewals_in(database, of.renewals);
        assert_eq!((there(0, &same[0]), there(1, &same[0])), (Some(7), Some(7)));
        assert_eq!((there(0, &apart[0]), there(2, &apart[0])), (Some(7), None));
        assert_eq!((there(0, &apart[1]), there(2, &apart[1])), (None, Some(3)));
    }
}
