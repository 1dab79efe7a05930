//! Which runs of queues are taken next: start-time fair queueing over keys, within limits.
//!
//! Promise: every store that supplies a [`QueueTable`] takes the same runs in the same order. No run is taken beyond a
//! limit, because the caller takes runs and slots in one transaction. Among the keys that have something to do, the one
//! with the smallest virtual time is next, and each turn raises the time of its key by one over its weight; a key that
//! was idle begins at the present time of its queue. The cost of a claim depends on what it takes, not on what waits.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use crate::store::queues::{Limit, LimitKind};
use crate::vocabulary::environment::{CLOCKS_APART, later};
use crate::vocabulary::queue::{QueuePlace, QueueScope, Serves};

/// Virtual time of one turn of a key of weight 1.
const TURN: i64 = 1 << 20;
/// How many runs become ready in one claim, and how many keys that were set aside are looked at again.
const PROMOTED: usize = 4_096;
/// How many keys without room stay at the front of their queue.
const PASSED_OVER: usize = 64;
/// How long the keys behind them are set aside. Those at the front use what room there is meanwhile.
const ASIDE: Duration = Duration::from_millis(250);

/// Until when a claim at `now` may set a lane aside, but for limits that let nothing begin. One that is set aside for longer was
/// so by a clock that was set back since.
pub fn aside_at_most(limits: &[Limit], now: Timestamp) -> Timestamp {
    let longest = limits.iter().filter_map(|limit| limit.kind.per()).max();
    later(now, longest.unwrap_or_default().saturating_add(CLOCKS_APART))
}

/// What limits are checked against.
pub trait QueueCounts {
    /// The store's error.
    type Error;

    /// How many runs of a scope have a slot, counted up to `most`.
    ///
    /// # Errors
    /// Those of the store.
    fn held(&mut self, scope: &QueueScope, most: u64) -> Result<u64, Self::Error>;

    /// When the `n`th newest start was counted under `counter`; `None` if there were fewer.
    ///
    /// # Errors
    /// Those of the store.
    fn start_before(&mut self, counter: &str, n: u32) -> Result<Option<Timestamp>, Self::Error>;
}

/// The runs of queues in a store, as one claim sees and changes them. A *lane* holds the ready runs of one key of one
/// queue: those that are due, free and open. It is active while it holds any.
///
/// # Errors
/// Every method returns the store's own.
#[allow(clippy::missing_errors_doc, reason = "said once above")]
pub trait QueueTable: QueueCounts {
    /// How the store names a run.
    type Run;

    /// Makes runs ready that have become due, at most `most`, and looks again at lanes that were set aside until `now`, or
    /// until a time after `latest` that is not [`Timestamp::MAX`].
    fn promote(&mut self, now: Timestamp, latest: Timestamp, most: usize) -> Result<(), Self::Error>;

    /// Takes runs that `serves` allows, whose first turn was not granted, and that have expired or were asked to end, out of
    /// their lanes. What this claim has taken before is not among them.
    fn lapsed(&mut self, now: Timestamp, most: usize, serves: &Serves)
    -> Result<Vec<Self::Run>, Self::Error>;

    /// Queues with active lanes; the one that was served the longest ago comes first.
    fn queues(&mut self) -> Result<Vec<String>, Self::Error>;

    /// The active lane behind `after` by virtual time and key. With `begun`, only lanes with a run that has begun.
    fn lane(&mut self, queue: &str, after: Option<&Lane>, begun: bool) -> Result<Option<Lane>, Self::Error>;

    /// The ready run of a lane with the lowest rank that the caller can advance, and whether it has not begun. With
    /// `begun`, only one that has.
    fn best(&mut self, queue: &str, key: &str, begun: bool)
    -> Result<Option<(Self::Run, bool)>, Self::Error>;

    /// Whether a lane holds a run that has begun, whoever can advance it.
    fn has_begun(&mut self, queue: &str, key: &str) -> Result<bool, Self::Error>;

    /// Whether a run that has not begun has lapsed, as for [`QueueTable::lapsed`]: it is taken, but not to begin. A store that
    /// gives none of those as the best of a lane has none, which is the default.
    fn has_lapsed(&mut self, _run: &Self::Run, _now: Timestamp) -> Result<bool, Self::Error> {
        Ok(false)
    }

    /// Takes a run out of its lane, and notes whether the lane is still active.
    fn take(&mut self, run: &Self::Run, place: &QueuePlace) -> Result<(), Self::Error>;

    /// Notes whether a lane is still active.
    fn settle(&mut self, queue: &str, key: &str) -> Result<(), Self::Error>;

    /// Leaves a lane out until `until`.
    fn set_aside(&mut self, queue: &str, key: &str, until: Timestamp) -> Result<(), Self::Error>;

    /// Writes the virtual times of a lane after a turn that began at `began`: its own, and that of its queue.
    fn charge(&mut self, queue: &str, key: &str, began: i64, ends: i64) -> Result<(), Self::Error>;

    /// The virtual time of a lane, or that of its queue where it is later.
    fn time(&mut self, queue: &str, key: &str) -> Result<i64, Self::Error>;

    /// Counts a start under `counter`, of which the newest `keep` matter.
    fn count_start(&mut self, counter: &str, keep: u32, at: Timestamp) -> Result<(), Self::Error>;
}

/// A lane in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its virtual time.
    pub time: i64,
    /// Its key.
    pub key: String,
}

/// Why a run is not taken.
#[derive(Clone, Debug)]
struct Blocked<'l> {
    limit: &'l Limit,
    /// When the limit lets the next run begin.
    until: Option<Timestamp>,
}

/// A run that was taken.
#[derive(Debug)]
pub struct TakenRun<R> {
    /// The run.
    pub run: R,
    /// Whether it has a slot. One without may only be ended.
    pub slot: bool,
}

/// Takes runs of queues within the limits.
#[derive(Debug)]
pub struct Picker<'l> {
    limits: &'l [Limit],
    now: Timestamp,
    serves: &'l Serves,
    lapsed_first: bool,
    /// How many more runs may have a slot, by limit and scope.
    room: BTreeMap<(usize, QueueScope), u64>,
}

/// A queue while one claim takes from it.
struct Serving {
    queue: String,
    after: Option<Lane>,
    /// Whether only runs that have begun can be taken.
    begun: bool,
    passed_over: usize,
}

/// How many of `limit` places of a claim are for runs of queues while `others` runs outside of queues are due: what those
/// leave, and half at least. Of an odd number the place that is left over goes to queues, unless it is the turn of others.
pub fn places_of_queues(limit: usize, others: usize, others_first: bool) -> usize {
    let half = if others_first { limit / 2 } else { limit.div_ceil(2) };
    limit.saturating_sub(others).max(half)
}

/// How many of `limit` places for runs of queues are for those that have lapsed, while queues have something: half. Of an odd
/// number the place that is left over goes to a queue, unless it is the turn of those that have lapsed.
pub fn places_of_lapsed(limit: usize, lapsed_first: bool) -> usize {
    if lapsed_first { limit.div_ceil(2) } else { limit / 2 }
}

impl<'l> Picker<'l> {
    /// One claim at `now`, of a worker that takes all runs.
    pub fn new(limits: &'l [Limit], now: Timestamp) -> Self {
        Self { limits, now, serves: &Serves::ALL, lapsed_first: false, room: BTreeMap::new() }
    }

    /// Takes only runs that `serves` allows.
    pub fn serving(self, serves: &'l Serves) -> Self {
        Self { serves, ..self }
    }

    /// Gives the odd place to runs that have lapsed, or not; see [`places_of_lapsed`].
    pub fn lapsed_first(self, lapsed_first: bool) -> Self {
        Self { lapsed_first, ..self }
    }

    /// Takes at most `limit` runs. Those that have lapsed get half of the places, and what queues leave: they are only ended,
    /// and however many they are, they keep no other run waiting.
    ///
    /// # Errors
    /// Those of the store.
    pub fn take<T: QueueTable>(
        &mut self,
        table: &mut T,
        limit: usize,
    ) -> Result<Vec<TakenRun<T::Run>>, T::Error> {
        table.promote(self.now, aside_at_most(self.limits, self.now), PROMOTED)?;
        let share = places_of_lapsed(limit, self.lapsed_first);
        let mut taken = self.lapsed(table, share)?;
        let may_have_more = taken.len() >= share;
        let mut queues = if taken.len() < limit { table.queues()? } else { Vec::new() };
        queues.retain(|queue| self.serves.takes_queue(queue));
        let serving = |queue| Serving { queue, after: None, begun: false, passed_over: 0 };
        let mut queues: VecDeque<_> = queues.into_iter().map(serving).collect();
        while taken.len() < limit
            && let Some(mut serving) = queues.pop_front()
        {
            if let Some(run) = self.next(table, &mut serving)? {
                taken.push(run);
                queues.push_back(serving);
            }
        }
        if may_have_more && taken.len() < limit {
            taken.extend(self.lapsed(table, limit.saturating_sub(taken.len()))?);
        }
        Ok(taken)
    }

    fn lapsed<T: QueueTable>(&self, table: &mut T, most: usize) -> Result<Vec<TakenRun<T::Run>>, T::Error> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let lapsed = table.lapsed(self.now, most, self.serves)?;
        Ok(lapsed.into_iter().map(|run| TakenRun { run, slot: false }).collect())
    }

    /// Takes one run that the caller has chosen: whether the limits let it have a slot.
    ///
    /// # Errors
    /// Those of the store.
    pub fn take_chosen<T: QueueTable>(
        &mut self,
        table: &mut T,
        run: &T::Run,
        place: &QueuePlace,
        is_new: bool,
    ) -> Result<bool, T::Error> {
        if !self.serves.takes(Some(place)) || self.blocked(table, place, is_new)?.is_some() {
            return Ok(false);
        }
        let time = table.time(&place.queue, &place.key)?;
        table.take(run, place)?;
        self.grant(table, place, is_new, time)?;
        Ok(true)
    }

    /// The next run of a queue; `None` when nothing more of it can be taken.
    fn next<T: QueueTable>(
        &mut self,
        table: &mut T,
        serving: &mut Serving,
    ) -> Result<Option<TakenRun<T::Run>>, T::Error> {
        // Every lane up to `after` was served and has moved behind it, or cannot be served by this claim.
        while let Some(lane) = table.lane(&serving.queue, serving.after.as_ref(), serving.begun)? {
            let place = QueuePlace { queue: serving.queue.clone(), key: lane.key.clone(), priority: 0 };
            serving.after = Some(lane.clone());
            if !self.serves.takes(Some(&place)) {
                continue;
            }
            let Some((run, is_new)) = table.best(&place.queue, &place.key, serving.begun)? else {
                // Nothing at all, or nothing that this worker can advance.
                table.settle(&place.queue, &place.key)?;
                continue;
            };
            // It takes up a turn of its key, but no slot and no start.
            if is_new && table.has_lapsed(&run, self.now)? {
                table.take(&run, &place)?;
                self.charge(table, &place, lane.time)?;
                return Ok(Some(TakenRun { run, slot: false }));
            }
            let Some(blocked) = self.blocked(table, &place, is_new)? else {
                table.take(&run, &place)?;
                self.grant(table, &place, is_new, lane.time)?;
                return Ok(Some(TakenRun { run, slot: true }));
            };
            let is_start = matches!(blocked.limit.kind, LimitKind::Starts { .. });
            // A run that has begun needs no start: the next best of those.
            if is_start
                && let Some((run, _)) = table.best(&place.queue, &place.key, true)?
                && self.blocked(table, &place, false)?.is_none()
            {
                table.take(&run, &place)?;
                self.grant(table, &place, false, lane.time)?;
                return Ok(Some(TakenRun { run, slot: true }));
            }
            match (blocked.limit.pattern.is_whole_queue(), is_start) {
                (true, false) => return Ok(None),
                // From here on only what has begun, from the first lane on.
                (true, true) if !serving.begun => {
                    (serving.begun, serving.after) = (true, None);
                }
                // What has begun needs no start: who can advance it, or has room for it, must find it.
                (_, true) if table.has_begun(&place.queue, &place.key)? => {}
                _ => self.pass_over(table, serving, &place, blocked.until)?,
            }
        }
        Ok(None)
    }

    /// Leaves a lane without room where it is, or sets it aside so that later claims need not look at it.
    fn pass_over<T: QueueTable>(
        &self,
        table: &mut T,
        serving: &mut Serving,
        place: &QueuePlace,
        until: Option<Timestamp>,
    ) -> Result<(), T::Error> {
        serving.passed_over += 1;
        let until = match until {
            Some(until) => until,
            None if serving.passed_over > PASSED_OVER => later(self.now, ASIDE),
            None => return Ok(()),
        };
        table.set_aside(&place.queue, &place.key, until)
    }

    /// The limit that keeps a run of this place back.
    ///
    /// # Errors
    /// Those of the store.
    pub fn limit_of<C: QueueCounts>(
        &mut self,
        counts: &mut C,
        place: &QueuePlace,
        is_new: bool,
    ) -> Result<Option<Limit>, C::Error> {
        Ok(self.blocked(counts, place, is_new)?.map(|blocked| blocked.limit.clone()))
    }

    fn blocked<C: QueueCounts>(
        &mut self,
        counts: &mut C,
        place: &QueuePlace,
        is_new: bool,
    ) -> Result<Option<Blocked<'l>>, C::Error> {
        let limits = self.limits;
        let mut blocked: Option<Blocked<'l>> = None;
        for (no, limit) in limits.iter().enumerate() {
            let Some(scope) = limit.pattern.scope(place) else { continue };
            match limit.kind {
                LimitKind::Running(n) if self.room(counts, no, scope.clone(), n)? == 0 => {
                    return Ok(Some(Blocked { limit, until: None }));
                }
                LimitKind::Starts { n, per } if is_new => {
                    let until = match n {
                        // Paused: looked at again when the limit changes.
                        0 => Some(Timestamp::MAX),
                        n => {
                            let counted = counts.start_before(&counter(limit, &scope), n)?;
                            let latest = later(self.now, CLOCKS_APART);
                            let counted = counted.filter(|at| *at <= latest);
                            counted.map(|at| later(at, per)).filter(|until| *until > self.now)
                        }
                    };
                    // The one that opens last says how long the lane is set aside.
                    if until.is_some() && blocked.as_ref().is_none_or(|other| other.until < until) {
                        blocked = Some(Blocked { limit, until });
                    }
                }
                _ => {}
            }
        }
        Ok(blocked)
    }

    fn room<C: QueueCounts>(
        &mut self,
        counts: &mut C,
        limit: usize,
        scope: QueueScope,
        n: u32,
    ) -> Result<u64, C::Error> {
        if let Some(room) = self.room.get(&(limit, scope.clone())) {
            return Ok(*room);
        }
        let room = u64::from(n).saturating_sub(counts.held(&scope, u64::from(n))?);
        self.room.insert((limit, scope), room);
        Ok(room)
    }

    /// Takes a slot and a start, and raises the virtual time of the key.
    fn grant<T: QueueTable>(
        &mut self,
        table: &mut T,
        place: &QueuePlace,
        is_new: bool,
        began: i64,
    ) -> Result<(), T::Error> {
        for (no, limit) in self.limits.iter().enumerate() {
            let Some(scope) = limit.pattern.scope(place) else { continue };
            match limit.kind {
                LimitKind::Running(_) => {
                    if let Some(room) = self.room.get_mut(&(no, scope)) {
                        *room = room.saturating_sub(1);
                    }
                }
                LimitKind::Starts { n, .. } if is_new => {
                    table.count_start(&counter(limit, &scope), n, self.now)?
                }
                _ => {}
            }
        }
        self.charge(table, place, began)
    }

    /// Raises the virtual time of the key by a turn.
    fn charge<T: QueueTable>(&self, table: &mut T, place: &QueuePlace, began: i64) -> Result<(), T::Error> {
        // The pattern with the most segments counts; of two, the one without `*`.
        let weights = self.limits.iter().filter_map(|limit| match limit.kind {
            LimitKind::Weight(n) if limit.pattern.scope(place).is_some() => Some((precision(limit), n)),
            _ => None,
        });
        let weight = i64::from(weights.max().map_or(1, |(_, n)| n).max(1));
        table.charge(&place.queue, &place.key, began, began.saturating_add(TURN / weight))
    }
}

fn precision(limit: &Limit) -> (usize, bool) {
    let pattern = limit.pattern.as_str();
    (pattern.split('/').count(), !pattern.contains('*'))
}

/// Under which name the starts of a limit are counted.
pub fn counter(limit: &Limit, scope: &QueueScope) -> String {
    format!("{}\n{}", limit.pattern, scope.prefix)
}
