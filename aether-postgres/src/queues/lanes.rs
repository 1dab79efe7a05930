//! Queues as one claim has read them: lanes, their first runs, and what limits count.
//!
//! Promise: what the picker changes here is what the claim writes, and nothing else. What was not read is not there: a
//! claim sees the first lanes of each queue. Where the picker comes to their end, that is noted, and more are read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use aether_core::queue::{QueuePlace, QueueScope, Serves};
use aether_core::store::queueing::{Lane, QueueCounts, QueueTable};
use jiff::Timestamp;

use crate::error::OpError;
use crate::row;

/// A ready run: its shard and its id.
pub(crate) type Run = (i16, String);

/// The ready runs of one lane, by rank and place.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Those that have begun.
    pub(crate) begun: BTreeMap<(i64, i64), Run>,
    /// Those that have not.
    pub(crate) new: BTreeMap<(i64, i64), Run>,
}

impl Ready {
    fn first(&self, begun: bool) -> Option<((i64, i64), &Run)> {
        let of = if begun { &self.begun } else { &self.new };
        of.first_key_value().map(|(rank, run)| (*rank, run))
    }
}

/// A lane.
#[derive(Debug, Default)]
pub(crate) struct LaneState {
    pub(crate) time: i64,
    pub(crate) ready: Ready,
    /// Whether a run is ready that has begun, of whatever code.
    pub(crate) has_begun: bool,
    /// Until when it was set aside, in microseconds.
    pub(crate) until: Option<i64>,
    /// Whether it is to be written.
    pub(crate) is_changed: bool,
}

/// A queue.
#[derive(Debug, Default)]
pub(crate) struct QueueLanes {
    pub(crate) time: i64,
    pub(crate) is_served: bool,
    pub(crate) lanes: BTreeMap<String, LaneState>,
    /// Those that are not set aside, by time and key.
    pub(crate) order: BTreeSet<(i64, String)>,
    /// The last lane that was read, where there may be more; of all, and of those with runs that have begun.
    pub(crate) ends: [Option<(i64, String)>; 2],
    /// Whether the picker has come to that end.
    pub(crate) ended: [bool; 2],
    /// Whether the first lanes were asked for.
    pub(crate) is_read: bool,
}

/// Lanes that are to be read: of which queue, whether only those with runs that have begun, and behind which one.
pub(crate) type Asked = (String, bool, Option<(i64, String)>);

/// The newest starts under a counter.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// The number of the newest.
    pub(crate) newest: i64,
    /// Those that are about to leave the span, by their numbers.
    pub(crate) at: BTreeMap<i64, i64>,
    /// How many this claim adds.
    pub(crate) added: i64,
    /// How many matter.
    pub(crate) keep: i64,
}

/// What one claim has read.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) now: i64,
    /// The queues, the one that was served the longest ago first.
    pub(crate) order: Vec<String>,
    pub(crate) queues: BTreeMap<String, QueueLanes>,
    /// Places of lanes for which what the limits count was not read yet.
    pub(crate) uncounted: BTreeSet<(String, String)>,
    pub(crate) held: BTreeMap<QueueScope, u64>,
    pub(crate) starts: BTreeMap<String, Starts>,
}

impl Lanes {
    pub(crate) fn lane_mut(&mut self, queue: &str, key: &str) -> Option<&mut LaneState> {
        self.queues.get_mut(queue)?.lanes.get_mut(key)
    }

    /// The places of all lanes.
    pub(crate) fn places(&self) -> BTreeSet<(String, String)> {
        self.queues
            .iter()
            .flat_map(|(queue, lanes)| lanes.lanes.keys().map(move |key| (queue.clone(), key.clone())))
            .collect()
    }

    /// The lanes to read next: the first ones of each queue, and then those behind an end that the picker has come to.
    pub(crate) fn take_asked(&mut self) -> Vec<Asked> {
        let mut asked = Vec::new();
        for (queue, of) in &mut self.queues {
            let is_first = !std::mem::replace(&mut of.is_read, true);
            for begun in [false, true] {
                let at = usize::from(begun);
                let (Some(end), Some(ended)) = (of.ends.get_mut(at), of.ended.get_mut(at)) else { continue };
                if is_first || std::mem::take(ended) {
                    asked.push((queue.clone(), begun, end.take()));
                }
            }
        }
        asked
    }
}

impl QueueCounts for Lanes {
    type Error = OpError;

    fn held(&mut self, scope: &QueueScope, _most: u64) -> Result<u64, OpError> {
        // Every scope of a lane was counted.
        Ok(self.held.get(scope).copied().unwrap_or(u64::MAX))
    }

    fn start_before(&mut self, counter: &str, n: u32) -> Result<Option<Timestamp>, OpError> {
        let Some(starts) = self.starts.get(counter) else { return Ok(None) };
        let number = starts.newest + starts.added - i64::from(n) + 1;
        let at = if number > starts.newest { Some(self.now) } else { starts.at.get(&number).copied() };
        at.map(row::time).transpose()
    }
}

impl QueueTable for Lanes {
    type Run = Run;

    fn promote(&mut self, _now: Timestamp, _latest: Timestamp, _most: usize) -> Result<(), OpError> {
        Ok(())
    }

    fn lapsed(&mut self, _now: Timestamp, _most: usize, _serves: &Serves) -> Result<Vec<Run>, OpError> {
        Ok(Vec::new())
    }

    fn queues(&mut self) -> Result<Vec<String>, OpError> {
        Ok(self.order.clone())
    }

    fn lane(&mut self, queue: &str, after: Option<&Lane>, begun: bool) -> Result<Option<Lane>, OpError> {
        let at = usize::from(begun);
        let Some(of) = self.queues.get_mut(queue) else { return Ok(None) };
        let after = after.map_or(Bound::Unbounded, |lane| Bound::Excluded((lane.time, lane.key.clone())));
        let end = of.ends.get(at).and_then(Option::as_ref);
        let is_ready = |key: &String| {
            let ready = of.lanes.get(key).map(|lane| &lane.ready);
            ready.is_some_and(|ready| ready.first(true).is_some() || (!begun && ready.first(false).is_some()))
        };
        let behind = of.order.range((after, Bound::Unbounded));
        let next = behind
            .take_while(|lane| end.is_none_or(|end| *lane <= end))
            .find(|(_, key)| is_ready(key))
            .map(|(time, key)| Lane { time: *time, key: key.clone() });
        let has_ended = next.is_none() && end.is_some();
        if let Some(ended) = of.ended.get_mut(at) {
            *ended |= has_ended;
        }
        Ok(next)
    }

    fn best(&mut self, queue: &str, key: &str, begun: bool) -> Result<Option<(Run, bool)>, OpError> {
        let Some(lane) = self.lane_mut(queue, key) else { return Ok(None) };
        let old = lane.ready.first(true).map(|(rank, run)| (rank, run.clone(), false));
        let new = lane.ready.first(false).filter(|_| !begun).map(|(rank, run)| (rank, run.clone(), true));
        let best = old.into_iter().chain(new).min_by_key(|(rank, ..)| *rank);
        Ok(best.map(|(_, run, is_new)| (run, is_new)))
    }

    fn has_begun(&mut self, queue: &str, key: &str) -> Result<bool, OpError> {
        Ok(self.lane_mut(queue, key).is_some_and(|lane| lane.has_begun))
    }

    fn take(&mut self, run: &Run, place: &QueuePlace) -> Result<(), OpError> {
        if let Some(lane) = self.lane_mut(&place.queue, &place.key) {
            lane.is_changed = true;
            lane.ready.begun.retain(|_, other| other != run);
            lane.ready.new.retain(|_, other| other != run);
        }
        Ok(())
    }

    fn settle(&mut self, queue: &str, key: &str) -> Result<(), OpError> {
        if let Some(lane) = self.lane_mut(queue, key) {
            lane.is_changed = true;
        }
        Ok(())
    }

    fn set_aside(&mut self, queue: &str, key: &str, until: Timestamp) -> Result<(), OpError> {
        let Some(of) = self.queues.get_mut(queue) else { return Ok(()) };
        if let Some(lane) = of.lanes.get_mut(key) {
            lane.is_changed = true;
            lane.until = Some(row::micros(until));
            of.order.remove(&(lane.time, key.to_owned()));
        }
        Ok(())
    }

    fn charge(&mut self, queue: &str, key: &str, began: i64, ends: i64) -> Result<(), OpError> {
        if let Some(of) = self.queues.get_mut(queue) {
            of.is_served = true;
            of.time = of.time.max(began);
            if let Some(lane) = of.lanes.get_mut(key) {
                of.order.remove(&(lane.time, key.to_owned()));
                of.order.insert((ends, key.to_owned()));
                lane.is_changed = true;
                lane.time = ends;
            }
        }
        Ok(())
    }

    fn time(&mut self, queue: &str, key: &str) -> Result<i64, OpError> {
        let of = self.queues.get(queue);
        let lane = of.and_then(|of| of.lanes.get(key)).map(|lane| lane.time);
        Ok(lane.or(of.map(|of| of.time)).unwrap_or(0))
    }

    fn count_start(&mut self, counter: &str, keep: u32, _at: Timestamp) -> Result<(), OpError> {
        let starts = self.starts.entry(counter.to_owned()).or_default();
        starts.added += 1;
        starts.keep = i64::from(keep);
        Ok(())
    }
}
