//! What a process remembers of its claims: which answers it never got, and how far due runs are claimed.
//!
//! Promise: the token of a claim is kept until its answer is in the caller's hands, or until it is sure that the claim got
//! nothing. A lost claim is looked for by one caller at a time, so that what it got is given to one. The low-water mark is
//! used only while claims are slow again and again, and hides no run for longer than [`FULL_LOOK`].

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aether_core::id::WorkerId;

use crate::error::{OpError, is_lost};

/// So often a claim looks at all due runs, whatever the low-water mark says.
const FULL_LOOK: Duration = Duration::from_secs(1);
/// A claim that took longer walks over rows that are dead, and not yet vacuumed because an old snapshot may see them.
const SLOW: Duration = Duration::from_millis(10);
/// So many slow looks in a row are no accident.
const IN_A_ROW: u32 = 8;
/// How far behind the newest claimed run the mark stays, in microseconds: clocks differ, and transactions overtake each other.
const SLACK: i64 = 2_000_000;
/// So often rows of `due` that nothing needs are deleted.
const TIDY: Duration = Duration::from_secs(10);
/// So often a lost claim is looked for; less and less often the longer it is lost.
const LOOK: Duration = Duration::from_millis(500);
/// The pause between two looks is this part of the time since the claim was lost.
const LOOK_SHARE: u32 = 16;

/// The claims of one process on one database.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Tokens of claims that are under way, or whose answers were lost.
    open: Mutex<Vec<Open>>,
    mark: Mutex<Mark>,
    /// Runs that claims got and nobody can read: they are to be released.
    unreadable: Mutex<Vec<Unreadable>>,
    count: AtomicU64,
    hasher: RandomState,
}

/// A run that a claim got and whose row cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// Its id, as it stands in the row.
    pub(crate) id: String,
    /// The worker that claimed it.
    pub(crate) owner: String,
    pub(crate) epoch: i64,
    pub(crate) reason: String,
}

#[derive(Debug)]
struct Open {
    worker: WorkerId,
    token: String,
    /// Since when it is lost; `None` while its caller waits for the answer.
    lost: Option<Instant>,
    looked: Option<Instant>,
    /// Whether somebody looks for it now.
    is_sought: bool,
}

#[derive(Debug, Default)]
struct Mark {
    low: Option<i64>,
    /// Whose runs were claimed: a hash of the codes.
    codes: u64,
    /// How many full looks in a row were slow.
    slow: u32,
    full: Option<Instant>,
    tidied: Option<Instant>,
}

/// One try of a claim. Dropped without its answer, it counts as lost.
#[derive(Debug)]
struct Claim<'c> {
    claims: &'c Claims,
    token: String,
    answered: bool,
}

/// A claim that is under way. A try whose answer was lost may still be carried out, however often it was looked for in vain:
/// the next one has a token of its own.
#[derive(Debug)]
pub(crate) struct Attempts<'c> {
    claims: &'c Claims,
    worker: WorkerId,
    /// The one that is sent, or sent again after it is known to have got nothing.
    current: Option<Claim<'c>>,
    lost: Vec<Claim<'c>>,
    /// Lost ones that were found.
    found: Vec<Claim<'c>>,
}

impl Attempts<'_> {
    /// The token of the next try.
    pub(crate) fn token(&mut self) -> String {
        self.current.get_or_insert_with(|| self.claims.begin(&self.worker)).token.clone()
    }

    /// Passes the answer of a try on. One that was lost has no other.
    pub(crate) fn noting<T>(&mut self, answer: Result<T, OpError>) -> Result<T, OpError> {
        if is_lost(&answer) {
            self.lost.extend(self.current.take());
        }
        answer
    }

    /// The tokens of tries whose answers were lost.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.lost.iter().map(|claim| claim.token.clone()).collect()
    }

    /// Of lost tries these were found, and the caller has what they got.
    pub(crate) fn found(&mut self, tokens: &[String]) {
        self.found.extend(self.lost.extract_if(.., |claim| tokens.contains(&claim.token)));
    }
}

/// What the parts of one claim got that its caller does not have yet. Dropped before [`Given::delivered`], because a later
/// part failed or the caller gave up, it counts as lost.
#[derive(Debug, Default)]
pub(crate) struct Given<'c> {
    parts: Vec<Claim<'c>>,
    /// The lost claims that were looked for.
    look: Option<Look<'c>>,
}

/// A look for lost claims. Until it is dropped nobody else looks for them: how long it takes, with its delivery, nobody knows
/// beforehand.
#[derive(Debug)]
pub(crate) struct Look<'c> {
    claims: &'c Claims,
    tokens: Vec<String>,
    /// Those that were found.
    found: Vec<String>,
    /// Whether they were looked for wherever they may be.
    is_whole: bool,
}

impl Look<'_> {
    /// The tokens to look for.
    pub(crate) fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// These were found; `is_whole` says whether they were looked for wherever they may be.
    pub(crate) fn found(mut self, found: Vec<String>, is_whole: bool) -> Self {
        (self.found, self.is_whole) = (found, is_whole);
        self
    }

    /// What was found is in the caller's hands. A claim is one transaction, so that one which was found needs no further look,
    /// nor does one that was lost for longer than `late`: then its statement cannot be under way any more.
    fn delivered(self, late: Duration) {
        self.claims.open().retain(|claim| {
            let is_late = self.is_whole && claim.lost.is_some_and(|lost| lost.elapsed() > late);
            let is_over =
                self.found.contains(&claim.token) || (is_late && self.tokens.contains(&claim.token));
            !is_over
        });
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut open = self.claims.open();
        open.iter_mut()
            .filter(|claim| self.tokens.contains(&claim.token))
            .for_each(|claim| claim.is_sought = false);
    }
}

impl<'c> Given<'c> {
    /// A part has its answer. Tries that were lost and not found stay so.
    pub(crate) fn part(&mut self, tries: Attempts<'c>) {
        self.parts.extend(tries.found.into_iter().chain(tries.current));
    }

    /// Lost claims were looked for.
    pub(crate) fn looked_for(&mut self, look: Look<'c>) {
        self.look = Some(look);
    }

    /// The caller has all of it. A lost claim that was lost for longer than `late` and not found has got nothing.
    pub(crate) fn delivered(mut self, late: Duration) {
        self.parts.iter_mut().for_each(|claim| claim.answered = true);
        if let Some(look) = self.look {
            look.delivered(late);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut open = self.claims.open();
        if self.answered {
            open.retain(|claim| claim.token != self.token);
        } else if let Some(claim) = open.iter_mut().find(|claim| claim.token == self.token) {
            claim.lost = Some(Instant::now());
        }
    }
}

impl Claims {
    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self) -> MutexGuard<'_, Mark> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim got a run that cannot be read. What was got with it is given all the same.
    pub(crate) fn note_unreadable(&self, run: Unreadable) {
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if !unreadable.contains(&run) {
            unreadable.push(run);
        }
    }

    /// The unreadable runs that are not known to be released.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An unreadable run is released.
    pub(crate) fn is_released(&self, run: &Unreadable) {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| other != run);
    }

    /// A claim, of which nothing is sent yet.
    pub(crate) fn tries(&self, worker: &WorkerId) -> Attempts<'_> {
        Attempts { claims: self, worker: worker.clone(), current: None, lost: Vec::new(), found: Vec::new() }
    }

    /// Begins a try, with a token that no other one has.
    fn begin(&self, worker: &WorkerId) -> Claim<'_> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let random = || RandomState::new().hash_one(number);
        let token = format!("claim:{:016x}{:016x}", random(), random());
        self.open().push(Open {
            worker: worker.clone(),
            token: token.clone(),
            lost: None,
            looked: None,
            is_sought: false,
        });
        Claim { claims: self, token, answered: false }
    }

    /// The lost claims of `worker` that are to be looked for now, and that nobody looks for.
    pub(crate) fn look(&self, worker: &WorkerId, now: Instant) -> Look<'_> {
        let is_wanted = |claim: &&mut Open| {
            let pause = |lost| (now.duration_since(lost) / LOOK_SHARE).max(LOOK);
            let is_time = |lost| claim.looked.is_none_or(|looked| now.duration_since(looked) >= pause(lost));
            claim.worker == *worker && !claim.is_sought && claim.lost.is_some_and(is_time)
        };
        let mut open = self.open();
        let wanted = open.iter_mut().filter(is_wanted).map(|claim| {
            (claim.looked, claim.is_sought) = (Some(now), true);
            claim.token.clone()
        });
        Look { claims: self, tokens: wanted.collect(), found: Vec::new(), is_whole: false }
    }

    /// Due times of runs of these codes up to this one need no look, and whether none is left out.
    pub(crate) fn low_water(&self, codes: &[&str], now: Instant) -> (i64, bool) {
        let mut mark = self.mark();
        let codes = self.hasher.hash_one(codes);
        if mark.codes != codes {
            *mark = Mark { codes, tidied: mark.tidied, ..Mark::default() };
        }
        let is_full =
            mark.slow < IN_A_ROW || mark.full.is_none_or(|full| now.duration_since(full) >= FULL_LOOK);
        match mark.low {
            Some(low) if !is_full => (low, false),
            _ => (i64::MIN, true),
        }
    }

    /// A full look took so long.
    pub(crate) fn looked(&self, time: Duration) {
        let mut mark = self.mark();
        mark.slow = if time > SLOW { mark.slow.saturating_add(1) } else { 0 };
        mark.full = Some(Instant::now());
    }

    /// Runs that were due up to this time are claimed.
    pub(crate) fn claimed(&self, wake_at: i64) {
        self.mark().low = Some(wake_at.saturating_sub(SLACK));
    }

    /// Whether it is time to delete rows that nothing needs.
    pub(crate) fn may_tidy(&self, now: Instant) -> bool {
        let mut mark = self.mark();
        let is_time = mark.tidied.is_none_or(|tidied| now.duration_since(tidied) >= TIDY);
        if is_time {
            mark.tidied = Some(now);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Later than any test is.
    const LATE: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_claim_is_lost_until_its_answer_is_there_or_it_is_too_late() {
        let (claims, worker) = (Claims::default(), WorkerId::from("w".to_owned()));
        let now = Instant::now();
        let lost_of = |worker: &WorkerId, now| claims.look(worker, now).tokens().to_vec();
        let mut answered = claims.tries(&worker);
        assert_eq!(answered.token(), answered.token(), "what got nothing is sent again as it was");
        assert_eq!(lost_of(&worker, now), [""; 0], "it is under way");
        let mut given = Given::default();
        given.part(answered);
        given.delivered(LATE);
        drop(claims.tries(&worker));
        assert_eq!(lost_of(&worker, now), [""; 0], "it was never sent");
        let mut dropped = claims.tries(&worker);
        let tokens = [dropped.token()];
        drop(dropped);
        assert_eq!(lost_of(&WorkerId::from("v".to_owned()), now), [""; 0]);
        let look = claims.look(&worker, now);
        assert_eq!(look.tokens(), tokens);
        assert_eq!(lost_of(&worker, now + LOOK * 9), [""; 0], "somebody looks for it");
        look.found(Vec::new(), true).delivered(LATE);
        assert_eq!(lost_of(&worker, now), [""; 0], "looked for a moment ago");
        let look = claims.look(&worker, now + LOOK);
        assert_eq!(look.tokens(), tokens, "it may still be under way");
        look.found(tokens.to_vec(), false).delivered(LATE);
        assert_eq!(lost_of(&worker, now + LOOK * 3), [""; 0]);
    }

    #[test]
    fn what_was_looked_for_everywhere_and_too_late_is_lost_no_more() {
        let (claims, worker) = (Claims::default(), WorkerId::from("w".to_owned()));
        let mut dropped = claims.tries(&worker);
        let tokens = [dropped.token()];
        drop(dropped);
        let now = Instant::now();
        for (n, is_whole) in [(1, false), (2, true)] {
            let look = claims.look(&worker, now + LOOK * n);
            assert_eq!(look.tokens(), tokens);
            std::thread::sleep(Duration::from_millis(1));
            look.found(Vec::new(), is_whole).delivered(Duration::ZERO);
        }
        assert!(claims.look(&worker, now + LOOK * 9).tokens().is_empty());
    }

    #[test]
    fn what_was_answered_and_not_delivered_is_lost() {
        let (claims, worker) = (Claims::default(), WorkerId::from("w".to_owned()));
        let now = Instant::now();
        let mut given = Given::default();
        let mut part = claims.tries(&worker);
        let tokens = [part.token()];
        given.part(part);
        assert!(claims.look(&worker, now).tokens().is_empty(), "the other parts are under way");
        drop(given);
        for n in 0..2 {
            let mut given = Given::default();
            let look = claims.look(&worker, now + LOOK * n);
            assert_eq!(look.tokens(), tokens, "what was found did not arrive");
            given.looked_for(look.found(tokens.to_vec(), true));
            drop(given);
        }
        let mut given = Given::default();
        given.looked_for(claims.look(&worker, now + LOOK * 2).found(tokens.to_vec(), true));
        given.delivered(LATE);
        assert!(claims.look(&worker, now + LOOK * 9).tokens().is_empty());
    }

    #[test]
    fn the_mark_is_used_only_while_claims_are_slow_and_not_for_long() {
        let claims = Claims::default();
        let now = Instant::now();
        assert_eq!(claims.low_water(&["a"], now), (i64::MIN, true));
        claims.claimed(9_000_000);
        for _ in 1..IN_A_ROW {
            claims.looked(SLOW * 2);
            assert_eq!(claims.low_water(&["a"], now), (i64::MIN, true));
        }
        claims.looked(SLOW * 2);
        assert_eq!(claims.low_water(&["a"], now), (7_000_000, false));
        assert_eq!(claims.low_water(&["a"], Instant::now() + FULL_LOOK), (i64::MIN, true));
        claims.looked(SLOW / 2);
        assert_eq!(claims.low_water(&["a"], now), (i64::MIN, true));
        (0..IN_A_ROW).for_each(|_| claims.looked(SLOW * 2));
        assert_eq!(claims.low_water(&["a", "b"], now), (i64::MIN, true), "another program's");
        assert!(claims.may_tidy(now) && !claims.may_tidy(now) && claims.may_tidy(now + TIDY));
    }
}
