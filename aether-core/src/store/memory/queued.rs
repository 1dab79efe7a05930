//! Queues in memory as a claim, a start and a look at a run see them.
//!
//! Promise: a ready run is open, free, due and not parked.

use std::collections::BTreeSet;
use std::convert::Infallible;

use jiff::Timestamp;

use crate::store::error::StoreError;
use crate::store::memory::content::Content;
use crate::store::memory::queues::{LaneOfKey, ReadyRun};
use crate::store::queueing::{Lane, Picker, QueueCounts, QueueTable};
use crate::store::queues::{Limit, LimitKind, QueuePosition};
use crate::store::records::{ClaimRequest, NewRun};
use crate::vocabulary::id::{CodeId, RunId};
use crate::vocabulary::queue::{QueuePlace, QueueScope, Serves};

/// Queues as one claim sees them.
pub(super) struct Claiming<'c> {
    content: &'c mut Content,
    codes: &'c [CodeId],
    /// What was taken. Its records say so only when it is leased.
    taken: BTreeSet<RunId>,
}

impl<'c> Claiming<'c> {
    fn new(content: &'c mut Content, codes: &'c [CodeId]) -> Self {
        Self { content, codes, taken: BTreeSet::new() }
    }
}

impl Content {
    /// The limit that a new run would be over.
    pub(super) fn over_open(&self, new: &NewRun) -> Option<(Limit, u64)> {
        let place = new.terms.queue.as_ref()?;
        self.queues.limits.values().find_map(|limit| {
            let LimitKind::Open(n) = limit.kind else { return None };
            let scope = limit.pattern.scope(place)?;
            let open = self.queues.open.values().filter_map(|id| self.runs.get(id)).filter(|run| {
                let place = run.record.terms.queue.as_ref();
                !run.record.status.is_terminal() && place.is_some_and(|place| scope.holds(place))
            });
            let open = open.take(n as usize).count() as u64;
            (open >= u64::from(n)).then(|| (limit.clone(), open))
        })
    }

    /// Makes a run ready.
    pub(super) fn make_ready(&mut self, no: u64) {
        let Some(run) = self.created.get(&no).and_then(|id| self.runs.get_mut(id)) else { return };
        let Some(place) = run.record.terms.queue.clone() else { return };
        run.record.queue.waits_since = run.record.wake_at;
        let is_new = run.record.queue.started_at.is_none();
        let ready = ReadyRun { run: run.record.id.clone(), code: run.record.code.clone(), is_new };
        let rank = place.rank(run.record.created_at);
        let now = self.queues.times.entry(place.queue.clone()).or_default().0;
        let lane = self.queues.lanes.entry((place.queue, place.key)).or_default();
        if lane.ready.is_empty() {
            lane.time = lane.time.max(now);
        }
        if !is_new {
            lane.aside = None;
        }
        lane.ready.insert((rank, no), ready);
    }

    /// Takes those of a claim that wait in queues; says which of them have a slot.
    pub(super) fn take_queued(&mut self, request: &ClaimRequest, most: usize) -> Vec<(RunId, bool)> {
        let limits = self.queues.limits();
        let picker = Picker::new(&limits, request.now).serving(&request.serves);
        let Ok(taken) =
            picker.lapsed_first(request.lapsed_first).take(&mut Claiming::new(self, &request.codes), most);
        taken.into_iter().map(|taken| (taken.run, taken.slot)).collect()
    }

    /// Whether a run that was chosen may be claimed: outside of queues always, and else if there is a slot for it. A run
    /// of a silent worker has its slot.
    pub(super) fn may_take(&mut self, run: &RunId, request: &ClaimRequest) -> bool {
        let Some(record) = self.runs.get(run).map(|run| &run.record) else { return false };
        let (Some(place), None) = (record.terms.queue.clone(), &record.owner) else { return true };
        let is_new = record.queue.started_at.is_none();
        let limits = self.queues.limits();
        let mut picker = Picker::new(&limits, request.now);
        let mut table = Claiming::new(self, &request.codes);
        let Ok(taken) = picker.take_chosen(&mut table, run, &place, is_new);
        taken
    }

    pub(super) fn queue_position(
        &mut self,
        run: &RunId,
        now: Timestamp,
    ) -> Result<Option<QueuePosition>, StoreError> {
        let record = self.known(run)?.record.clone();
        let (Some(place), Some(since)) = (record.terms.queue, record.queue.waits_since) else {
            return Ok(None);
        };
        let own = (place.rank(record.created_at), record.place.number());
        let lane = self.queues.lanes.get(&(place.queue.clone(), place.key.clone()));
        let ahead = lane.map_or(0, |lane| lane.ready.range(..own).take(QueuePosition::MOST as usize).count());
        let limits = self.queues.limits();
        let is_new = record.queue.started_at.is_none();
        let mut counts = Claiming::new(self, &[]);
        let Ok(limit) = Picker::new(&limits, now).limit_of(&mut counts, &place, is_new);
        Ok(Some(QueuePosition { since, ahead: ahead as u64, limit }))
    }
}

impl QueueCounts for Claiming<'_> {
    type Error = Infallible;

    fn held(&mut self, scope: &QueueScope, most: u64) -> Result<u64, Infallible> {
        let runs = self.content.queues.open.values().filter_map(|id| self.content.runs.get(id));
        let held = runs.filter(|run| {
            let place = run.record.terms.queue.as_ref();
            run.slot && run.record.owner.is_some() && place.is_some_and(|place| scope.holds(place))
        });
        Ok((held.count() as u64).min(most))
    }

    fn start_before(&mut self, counter: &str, n: u32) -> Result<Option<Timestamp>, Infallible> {
        let starts = self.content.queues.starts.get(counter);
        Ok(starts.and_then(|starts| starts.iter().rev().nth((n as usize).saturating_sub(1)).copied()))
    }
}

impl QueueTable for Claiming<'_> {
    type Run = RunId;

    fn promote(&mut self, now: Timestamp, latest: Timestamp, most: usize) -> Result<(), Infallible> {
        let runs = &self.content.runs;
        self.content
            .queues
            .open
            .retain(|_, id| runs.get(id).is_some_and(|run| !run.record.status.is_terminal()));
        let due = self.content.queues.open.iter().filter(|(_, id)| {
            let Some(run) = runs.get(*id) else { return false };
            let is_free = run.record.owner.is_none() && !run.record.parked && !run.is_ready();
            is_free && run.is_due(now)
        });
        let due: Vec<u64> = due.map(|(no, _)| *no).take(most).collect();
        due.into_iter().for_each(|no| self.content.make_ready(no));
        let lanes = self.content.queues.lanes.values_mut();
        let is_aside = |until: &Timestamp| *until > now && *until <= latest || *until == Timestamp::MAX;
        lanes.for_each(|lane| lane.aside = lane.aside.filter(is_aside));
        Ok(())
    }

    fn lapsed(&mut self, now: Timestamp, most: usize, serves: &Serves) -> Result<Vec<RunId>, Infallible> {
        let runs = self.content.queues.open.values().filter_map(|id| self.content.runs.get(id));
        let lapsed = runs.filter_map(|run| {
            let record = &run.record;
            let is_free = record.owner.is_none() && !record.parked && self.codes.contains(&record.code);
            let is_free =
                is_free && serves.takes(record.terms.queue.as_ref()) && !self.taken.contains(&record.id);
            let at = run.lapses_at.filter(|at| is_free && *at <= now)?;
            Some((at, record.place, record.id.clone()))
        });
        let mut lapsed: Vec<_> = lapsed.collect();
        lapsed.sort();
        lapsed.truncate(most);
        let lapsed: Vec<_> = lapsed.into_iter().map(|(_, _, id)| id).collect();
        for id in &lapsed {
            let place = self.content.runs.get(id).and_then(|run| run.record.terms.queue.clone());
            if let Some(place) = place {
                self.take(id, &place)?;
            }
        }
        Ok(lapsed)
    }

    fn queues(&mut self) -> Result<Vec<String>, Infallible> {
        let queues = &self.content.queues;
        let active = queues.lanes.iter().filter(|(_, lane)| lane.is_active());
        let active: BTreeSet<&String> = active.map(|((queue, _), _)| queue).collect();
        let mut active: Vec<_> = active.into_iter().cloned().collect();
        active.sort_by_key(|queue| queues.times.get(queue).map_or(0, |(_, served)| *served));
        Ok(active)
    }

    fn lane(&mut self, queue: &str, after: Option<&Lane>, begun: bool) -> Result<Option<Lane>, Infallible> {
        let lanes = self.content.queues.lanes.range((queue.to_owned(), String::new())..);
        let own = lanes.take_while(|((of, _), _)| of == queue);
        let active = own.filter(|(_, lane)| lane.is_active() && (!begun || lane.has_begun()));
        let later = active
            .map(|((_, key), lane)| (lane.time, key))
            .filter(|place| after.is_none_or(|after| *place > (after.time, &after.key)));
        Ok(later.min().map(|(time, key)| Lane { time, key: key.clone() }))
    }

    fn best(&mut self, queue: &str, key: &str, begun: bool) -> Result<Option<(RunId, bool)>, Infallible> {
        let lane = self.content.queues.lanes.get(&(queue.to_owned(), key.to_owned()));
        let fits = |run: &&ReadyRun| self.codes.contains(&run.code) && !(begun && run.is_new);
        let best = lane.and_then(|lane| lane.ready.values().find(fits));
        Ok(best.map(|best| (best.run.clone(), best.is_new)))
    }

    fn has_begun(&mut self, queue: &str, key: &str) -> Result<bool, Infallible> {
        let lane = self.content.queues.lanes.get(&(queue.to_owned(), key.to_owned()));
        Ok(lane.is_some_and(LaneOfKey::has_begun))
    }

    fn has_lapsed(&mut self, run: &RunId, now: Timestamp) -> Result<bool, Infallible> {
        let lapses_at = self.content.runs.get(run).and_then(|run| run.lapses_at);
        Ok(lapses_at.is_some_and(|at| at <= now))
    }

    fn take(&mut self, run: &RunId, place: &QueuePlace) -> Result<(), Infallible> {
        self.taken.insert(run.clone());
        let Some(run) = self.content.runs.get_mut(run) else { return Ok(()) };
        run.record.queue.waits_since = None;
        // Its own priority: the place that is given is that of the lane.
        let own = run.record.terms.queue.as_ref().unwrap_or(place);
        let rank = (own.rank(run.record.created_at), run.record.place.number());
        if let Some(lane) = self.content.queues.lanes.get_mut(&(place.queue.clone(), place.key.clone())) {
            lane.ready.remove(&rank);
        }
        Ok(())
    }

    /// Nothing to note: a lane knows whether it is active.
    fn settle(&mut self, _queue: &str, _key: &str) -> Result<(), Infallible> {
        Ok(())
    }

    fn set_aside(&mut self, queue: &str, key: &str, until: Timestamp) -> Result<(), Infallible> {
        if let Some(lane) = self.content.queues.lanes.get_mut(&(queue.to_owned(), key.to_owned())) {
            lane.aside = Some(until);
        }
        Ok(())
    }

    fn charge(&mut self, queue: &str, key: &str, began: i64, ends: i64) -> Result<(), Infallible> {
        let queues = &mut self.content.queues;
        queues.served += 1;
        let (time, served) = queues.times.entry(queue.to_owned()).or_default();
        (*time, *served) = ((*time).max(began), queues.served);
        let present = *time;
        queues.lanes.entry((queue.to_owned(), key.to_owned())).or_default().time = ends;
        // An idle lane that is not ahead of its queue would begin at the present time anyway.
        queues.lanes.retain(|(of, _), lane| of != queue || !lane.ready.is_empty() || lane.time > present);
        Ok(())
    }

    fn time(&mut self, queue: &str, key: &str) -> Result<i64, Infallible> {
        let queues = &self.content.queues;
        let present = queues.times.get(queue).map_or(0, |(time, _)| *time);
        let lane = queues.lanes.get(&(queue.to_owned(), key.to_owned()));
        // An active lane may be behind the time of its queue for a while, because it had no room.
        Ok(lane
            .map_or(present, |lane| if lane.ready.is_empty() { lane.time.max(present) } else { lane.time }))
    }

    fn count_start(&mut self, counter: &str, keep: u32, at: Timestamp) -> Result<(), Infallible> {
        let starts = self.content.queues.starts.entry(counter.to_owned()).or_default();
        starts.push_back(at);
        let surplus = starts.len().saturating_sub(keep as usize);
        starts.drain(..surplus);
        Ok(())
    }
}
