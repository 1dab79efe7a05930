//! What the world knows of things that were made and undone: every call that undoes one, and what became of it.
//!
//! Promise: asks nobody but the bodies. One thing is undone under one key, and under another one only after a definite
//! failure; a call that may not be repeated is not, and one that has returned is not made again.

use std::collections::BTreeMap;

use aether_core::failure::Failure;
use aether_core::id::{CommandId, RunId};
use aether_core::step::StepCx;

use super::{Body, begin_call, may_lose_runs, violated, with};
use crate::model::FAILS;
use crate::sim;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Nothing yet; its engine may be gone.
    InFlight,
    /// Its body was dropped: nobody knows.
    Dropped,
    /// It has definitely done nothing.
    Failed,
    /// It has undone it, and a callback reports that.
    HandedOver,
    /// It has undone it.
    Returned,
}

/// A call that undoes something.
#[derive(Clone, Debug)]
struct Call {
    key: String,
    came: Came,
}

/// Things, and the calls that undo them.
#[derive(Debug, Default)]
pub struct Things {
    numbers: BTreeMap<(String, String), u32>,
    calls: BTreeMap<u32, Vec<Call>>,
}

impl Things {
    /// The thing that this call has made, if it was called.
    pub fn made_by(&self, run: &RunId, command: &CommandId) -> Option<u32> {
        self.numbers.get(&(run.to_string(), command.to_string())).copied()
    }

    /// What became of the calls that undo a thing.
    pub fn calls(&self, number: u32) -> impl Iterator<Item = Came> {
        self.calls.get(&number).into_iter().flatten().map(|call| call.came)
    }

    /// Whether a call has undone it.
    pub fn is_undone(&self, number: u32) -> bool {
        self.calls(number).any(|came| matches!(came, Came::Returned | Came::HandedOver))
    }

    /// The things that somebody has tried to undo, each with whether that may have left them as they are.
    pub fn undoing(&self) -> BTreeMap<u32, bool> {
        let may_be_left = |number| !self.is_undone(number) || self.is_unclear(number);
        self.calls.keys().map(|number| (*number, may_be_left(*number))).collect()
    }

    /// Whether nobody knows of some call what became of it.
    pub fn is_unclear(&self, number: u32) -> bool {
        self.calls(number).any(|came| !matches!(came, Came::Failed | Came::Returned))
    }
}

/// A body makes something.
pub fn made(run: &RunId, command: &CommandId, number: u32) {
    with(|facts| facts.things.numbers.insert((run.to_string(), command.to_string()), number));
}

/// A body that undoes something.
#[derive(Debug)]
pub struct Undoing {
    body: Option<Body>,
    number: u32,
    at: usize,
    is_first: bool,
}

/// A body is called that undoes a thing; `repeatable`: also once more under the same key, when nobody knows what became of
/// the call before.
pub fn called(cx: &StepCx, number: u32, repeatable: bool) -> Undoing {
    let key = cx.idempotency_key().to_string();
    let before = with(|facts| {
        let calls = facts.things.calls.entry(number).or_default();
        let before = calls.clone();
        calls.push(Call { key: key.clone(), came: Came::InFlight });
        before
    });
    // What the newest call under a key has answered is what that key has come to.
    let newest: BTreeMap<&str, Came> = before.iter().map(|call| (&*call.key, call.came)).collect();
    // One that was paused may repeat what a new owner has done since, under a key that the receiver knows.
    let is_late = repeatable && newest.contains_key(&*key) && may_lose_runs();
    // What has failed under its key stays so, whatever a paused worker repeats under it.
    let has_failed = |key: &str| {
        let failed = |call: &Call| call.key == key && call.came == Came::Failed;
        repeatable && may_lose_runs() && before.iter().any(failed)
    };
    let is_settled = |key: &str, came: Came| came == Came::Failed || has_failed(key);
    let other = newest.iter().find(|(other, came)| **other != key && !is_settled(other, **came));
    if let Some(other) = other.filter(|_| !is_late) {
        violated("undone-twice", format!("{number}: {key} after {other:?}"));
    }
    let same = newest.get(&*key).filter(|came| repeatable && **came != Came::Dropped);
    // Of one that was dropped behind its body, nothing is known either.
    if let Some(came) = same.filter(|_| !may_lose_runs() && with(|facts| facts.keeps_bodies)) {
        violated("undone-again", format!("{number}: {key}, which is {came:?}"));
    }
    let body = begin_call(cx.run_id().as_str(), &key, repeatable);
    let came = |came| before.iter().any(|call| call.came == came);
    let is_first = !came(Came::Failed) && !came(Came::Returned);
    Undoing { body: Some(body), number, at: before.len(), is_first }
}

impl Undoing {
    /// Whether no call for this thing has failed or returned before.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// It is undone.
    pub fn returns(self) -> u64 {
        self.ends(Came::Returned)
    }

    /// It is undone, and a callback says so.
    pub fn hands_over(self) -> u64 {
        self.ends(Came::HandedOver)
    }

    fn ends(mut self, came: Came) -> u64 {
        self.came(came);
        self.body.take().map(Body::returns).unwrap_or_default()
    }

    /// It has definitely done nothing.
    pub fn fails(mut self, failure: impl FnOnce(&'static str) -> Failure) -> Failure {
        self.came(Came::Failed);
        let failure = failure(FAILS);
        match self.body.take() {
            Some(body) => body.fails_as(failure),
            None => failure,
        }
    }

    fn came(&self, came: Came) {
        with(|facts| {
            let call = facts.things.calls.get_mut(&self.number).and_then(|calls| calls.get_mut(self.at));
            call.into_iter().for_each(|call| call.came = came);
        });
    }
}

impl Drop for Undoing {
    fn drop(&mut self) {
        if self.body.is_some() && !sim::is_over() {
            self.came(Came::Dropped);
        }
    }
}
