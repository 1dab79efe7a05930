//! What a writer does with the appends of a bucket that has left its database.
//!
//! Promise: appends of a run stay in their order, and behind its creation. All that a writer has of a bucket, in hand and in
//! its queue, is sent to the bucket's new database while the map is held, and only then new appends go there. An append
//! whose answer was lost keeps the numbers under which its frame may be found: frames keep theirs when they are moved.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use aether_core::id::RunId;
use aether_core::store::{AppendError, StoreError};
use tokio::sync::oneshot;

use crate::error::{OpError, gone};
use crate::placement::map::Spot;
use crate::placement::shared::{Bucket, Shared, Standing};
use crate::row::get;
use crate::shard::shard;
use crate::writer::batch::{Batch, Group, Item};
use crate::writer::{Op, Writer};

/// After how long an append is tried again whose bucket, or whose run, is on its way to the database.
const COMING: Duration = Duration::from_millis(20);

/// What the database knows of buckets, whether it knows of them at all, and whether it has a run of each. One snapshot: a
/// run that is not in it while its bucket is here is in no database.
const STRAYS: &str =
    "SELECT q.shard, coalesce(b.version, 0), coalesce(b.away, false), b.elsewhere, b.shard IS NOT NULL,
        EXISTS (SELECT 1 FROM runs r WHERE r.shard = q.shard AND r.id = q.run), q.run
    FROM unnest($1::int2[], $2::text[]) AS q(shard, run) LEFT JOIN buckets b ON b.shard = q.shard";

/// Buckets that have left, and what a writer has in hand of them.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    spots: HashMap<i16, Spot>,
    /// In the order in which they were queued.
    items: Vec<Item>,
    told: Vec<oneshot::Sender<()>>,
}

impl Leaving {
    /// Whether there is anything to be sent on.
    pub(crate) fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }

    /// A bucket has left; `told` is whoever waits for the map to say so.
    pub(crate) fn note(&mut self, shard: i16, spot: Spot, told: Option<oneshot::Sender<()>>) {
        self.spots.insert(shard, spot);
        self.told.extend(told);
    }

    /// Takes what belongs to buckets that have left out of a batch that is about to be written.
    pub(crate) fn take(&mut self, batch: &mut Batch) {
        if self.spots.is_empty() {
            return;
        }
        for (_, group) in batch.groups.extract_if(.., |(shard, _), _| self.spots.contains_key(shard)) {
            self.items.extend(group.items);
        }
    }
}

impl Writer {
    /// Of groups that were refused because there is no such run: those whose bucket is not here are kept to be sent on, or
    /// wait until it has come; those whose run this process is creating wait for that. The others stay in the batch.
    pub(crate) async fn set_strays_aside(
        &mut self,
        batch: &mut Batch,
        strays: &[RunId],
    ) -> Result<(), OpError> {
        let Some(peers) = self.database.peers.get() else { return Ok(()) };
        let (number, Some(shared)) = (peers.number, peers.shared.upgrade()) else { return Ok(()) };
        if strays.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = strays.iter().map(RunId::as_str).collect();
        let shards: Vec<i16> = names.iter().map(|name| shard(name)).collect();
        // Before the look: what is answered by then is seen by it.
        let unborn = shared.births.of(strays);
        for row in self.conn.query(STRAYS, &[&shards, &names]).await? {
            let (of, is_there, run): (i16, bool, &str) = (get(&row, 0)?, get(&row, 5)?, get(&row, 6)?);
            let spot = shared.map.spot(of);
            let standing = match (spot.database == number, get::<bool>(&row, 4)?) {
                (true, true) => shared.judge(spot, Some(&Bucket::read(&row)?)),
                (true, false) => shared.judge(spot, None),
                (false, _) => Ok(Standing::Moved(spot)),
            };
            match standing {
                // It was away when it was looked at, and is back.
                Ok(Standing::Here) if is_there => self.wait_for(batch, |shard, _| shard == of),
                // The creation found out later than its appends that the bucket has moved.
                Ok(Standing::Here) if unborn.contains(&run) => {
                    self.wait_for(batch, |_, other| other.as_str() == run);
                }
                Ok(Standing::Here) => {}
                Ok(Standing::Moved(spot)) => self.leaving.note(of, spot, None),
                Ok(Standing::Coming) => self.wait_for(batch, |shard, _| shard == of),
                Err(error) => {
                    for (_, group) in batch.groups.extract_if(.., |(shard, _), _| *shard == of) {
                        group.items.into_iter().for_each(|item| item.append.ack.failed(error.clone().into()));
                    }
                }
            }
        }
        self.leaving.take(batch);
        Ok(())
    }

    /// Tries groups again in a moment: their buckets, or their runs, are on the way.
    fn wait_for(&mut self, batch: &mut Batch, is_meant: impl Fn(i16, &RunId) -> bool) {
        let at = Instant::now() + COMING;
        for ((_, run), group) in batch.groups.extract_if(.., |(shard, run), _| is_meant(*shard, run)) {
            if self.gives_up_waiting() {
                let error = gone(&self.database.name);
                group.items.into_iter().for_each(|item| item.append.ack.failed(error.clone().into()));
                self.given_up = Some(error);
                continue;
            }
            match self.later.get_mut(&run) {
                Some((_, earlier)) => earlier.items.extend(group.items),
                None => drop(self.later.insert(run, (at, group))),
            }
        }
    }

    /// Sends on what belongs to buckets that have left. Nothing of them may be under way.
    pub(crate) fn send_on(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let shared =
            self.database.peers.get().and_then(|peers| Some((peers.number, peers.shared.upgrade()?)));
        let leaving = std::mem::take(&mut self.leaving);
        let Some((number, shared)) = shared else {
            let error: AppendError = gone(&self.database.name).into();
            return leaving.items.into_iter().for_each(|item| item.append.ack.failed(error.clone()));
        };
        // Until this is dropped nobody queues an append, here or there.
        let mut map = shared.map.hold();
        for (shard, spot) in &leaving.spots {
            map.set(*shard, *spot);
        }
        let (mut stays, mut lost) = (VecDeque::new(), None);
        let mut pass = |item: Item| {
            let of = map.spot(shard(item.append.run.as_str())).database;
            if of == number {
                stays.push_back(Op::Append(item))
            } else {
                lost = forward(&shared, of, item).err().or(lost.take())
            }
        };
        leaving.items.into_iter().for_each(&mut pass);
        // Appends to a run that is still to be created here find out with that where it is.
        let is_created = |run: &RunId| !self.later_creations.contains_key(run);
        let is_leaving = |group: &Group| leaving.spots.contains_key(&group.shard) && is_created(&group.run);
        let later = self.later.extract_if(.., |_, (_, group)| is_leaving(group));
        later.flat_map(|(_, (_, group))| group.items).for_each(&mut pass);
        while let Ok(op) = self.ops.try_recv() {
            self.waiting.push_back(op);
        }
        for op in std::mem::take(&mut self.waiting) {
            let of_leaving =
                |run: &RunId| leaving.spots.contains_key(&shard(run.as_str())) && is_created(run);
            match op {
                Op::Append(item) if of_leaving(&item.append.run) => pass(item),
                op => self.waiting.push_back(op),
            }
        }
        // Whatever stays is of buckets of which nothing else is queued here.
        self.waiting.extend(stays);
        drop(map);
        self.given_up = lost.or(self.given_up.take());
        for told in leaving.told {
            let _asker_gone = told.send(());
        }
    }
}

/// Queues an append where its run is now.
///
/// # Errors
/// What its run was told, where the store closes and that writer has ended.
fn forward(shared: &Shared, number: usize, item: Item) -> Result<(), StoreError> {
    let database = shared.database(number);
    let sent = match database.writers.get() {
        Some(writers) => writers.forward(item),
        None => Err(Op::Append(item)),
    };
    match sent {
        Err(Op::Append(item)) => {
            let error = gone(&database.name);
            item.append.ack.failed(error.clone().into());
            Err(error)
        }
        _ => Ok(()),
    }
}
