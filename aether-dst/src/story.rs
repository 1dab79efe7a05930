//! Stories as data: programs for a few runs, and what is done to them and to their engines from outside.
//!
//! Promise: a story follows from its seed, and can be written as JSON, cut down and replayed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::program::Got;
use crate::rng::Rng;

pub mod shrink;
mod undoing;

/// How a thing is undone that a program has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Undone {
    /// By a call that nobody may repeat.
    Once,
    /// By a call that may be repeated under its key, at the second attempt.
    Again,
    /// After an approval, at the second attempt.
    Agreed,
    /// By a call that leaves its outcome to a callback.
    Reported,
    /// Not at all: the call fails.
    Never,
}

/// One command of a program. Spans are milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum Op {
    /// Waits for a signal of this name.
    Signal(u8),
    /// The same, with a time limit.
    SignalWithin(u8, u64),
    /// Sleeps.
    Sleep(u64),
    /// Changes the world, for so long.
    Tool(u64),
    /// The same, after an approval.
    Approved(u64),
    /// Changes the world and leaves the outcome to a callback.
    Callback,
    /// Changes the world without knowing the outcome; its probe panics.
    Unseen,
    /// Changes the world for so long, once for each of these keys in the whole store; or definitely fails.
    Once(u8, u64, bool),
    /// Reads, for so long.
    Read(u64),
    /// Reads so many times.
    Reads(u8, u64),
    /// The first branch to finish wins.
    Race(Vec<Op>, Vec<Op>),
    /// Both branches.
    Join(Vec<Op>, Vec<Op>),
    /// A child run of this id, with its result.
    Child(String, Vec<Op>),
    /// A child run whose result is waited for at the end of the program, if at all.
    StartChild(String, Vec<Op>, bool),
    /// From here on the program holds a value whose destructor takes a while, or panics.
    Hold(bool),
    /// Makes a thing of this number, in so long, which can be undone in this way in the same time.
    Make(u32, Undone, u64),
    /// The same, but fails half-way.
    HalfWay(u32, u64),
    /// Undoes what was made.
    Undo,
    /// Changes the world, for so long, and leaves the outcome to a callback that has so long; again if it does not come.
    Expiring(u64, u64),
    /// The program fails here; the last operation of a run.
    Fail,
    /// It continues as new, with these operations; the last one of a run.
    Continue(Vec<Op>),
    /// What the generations before got; the first one of the program that continues.
    Earlier(Vec<Got>),
}

/// What is done from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Deed {
    /// Starts an engine in a slot, unless there is one.
    Up(usize),
    /// Shuts it down within so many milliseconds; `None`: drops it.
    Down(usize, Option<u64>),
    /// Kills it.
    Kill(usize),
    /// Leaves it alone for so many milliseconds, as SIGSTOP does.
    Pause(usize, u64),
    /// Sets the wall clock forward or back by so many milliseconds.
    Leap(i64),
    /// Starts a run.
    Start(usize, usize),
    /// Sends a signal through an engine, or as another process does; large or small.
    Signal(Option<usize>, String, u8, bool),
    /// Cancels a run.
    Cancel(usize, String),
    /// Asks for a run to be advanced, and drops the call after so many microseconds.
    Advance(usize, String, u64),
    /// Deletes the runs that have ended.
    Purge(usize),
    /// Waits for a run's end, and drops the call after so many milliseconds.
    Wait(usize, String, u64),
    /// For so many milliseconds every write of a slot's engine fails: the disk is full, or the file is locked.
    Fault(usize, u64, Medium),
}

/// Why a store fails for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Medium {
    /// There is no room.
    Full,
    /// Another process holds the lock.
    Locked,
    /// It is out of reach: appends fail as well.
    Gone,
}

/// Programs, and what is done to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// The program of each run.
    pub runs: Vec<Vec<Op>>,
    /// What is done, at which millisecond.
    pub deeds: Vec<(u64, Deed)>,
    /// Values of more bytes are stored apart.
    pub inline: usize,
    /// The store takes its time.
    pub slow: bool,
    /// The store is the embedded one, on a file.
    #[serde(default)]
    pub file: bool,
}

/// Spans around the engine's own: the eviction grace is 100 ms, the lease 1,000 ms.
const SPANS: [u64; 10] = [0, 1, 5, 50, 99, 100, 101, 150, 300, 1_200];

/// Draws programs.
struct Author {
    rng: Rng,
    bombs: bool,
    kids: u32,
    /// Things that were made.
    things: u32,
}

impl Author {
    fn span(&mut self) -> u64 {
        self.rng.pick(&SPANS)
    }

    fn program(&mut self, depth: u32) -> Vec<Op> {
        let count = 1 + self.rng.below(3);
        let mut ops: Vec<Op> = (0..count).map(|_| self.op(depth)).collect();
        match self.rng.below(if depth > 0 { 12 } else { 0 }) {
            1 | 2 => ops.extend(self.contest()),
            // Something slow beside something that begins again and again.
            3 => ops.push(Op::Join(vec![Op::Tool(self.span())], vec![Op::Reads(5, self.rng.below(60))])),
            _ => {}
        }
        ops
    }

    /// A program that does what must be done once in the whole store.
    fn keyed(&mut self) -> Vec<Op> {
        let count = 1 + self.rng.below(3);
        let ops = (0..count).map(|_| match self.rng.below(8) {
            0 => Op::Sleep(self.span()),
            1 => Op::Read(self.span()),
            2 => Op::Join(vec![self.once()], vec![self.once()]),
            _ => self.once(),
        });
        ops.collect()
    }

    fn once(&mut self) -> Op {
        let key = u8::from(self.rng.one_in(4));
        Op::Once(key, self.rng.pick(&[0, 0, 1, 20, 150]), self.rng.one_in(3))
    }

    /// A wait that may lose a race after it has its message, and one for the same name behind it.
    fn contest(&mut self) -> [Op; 2] {
        let name = self.name();
        let other = match self.rng.below(3) {
            0 => Op::Signal(1 - name),
            1 => Op::Sleep(self.span()),
            _ => Op::Read(self.span()),
        };
        [Op::Race(vec![Op::Signal(name)], vec![other]), Op::Signal(name)]
    }

    fn name(&mut self) -> u8 {
        u8::from(self.rng.one_in(2))
    }

    fn op(&mut self, depth: u32) -> Op {
        let (name, span) = (self.name(), self.span());
        match self.rng.below(if depth > 0 { 21 } else { 14 }) {
            0..=2 => Op::Signal(name),
            3 => Op::SignalWithin(name, span + 1),
            4 => Op::Sleep(span),
            5..=7 => Op::Tool(span),
            8 => Op::Approved(span),
            9 => Op::Callback,
            10 => Op::Read(span),
            11 => Op::Reads(2 + self.rng.below(4).to_le_bytes()[0], self.rng.below(20)),
            12 => Op::Hold(self.bombs && self.rng.one_in(2)),
            13 => Op::Unseen,
            14..=16 => Op::Race(self.program(depth - 1), self.program(depth - 1)),
            17 | 18 => Op::Join(self.program(depth - 1), self.program(depth - 1)),
            kind => {
                self.kids += 1;
                let id = format!("kid{}", self.kids);
                let program = self.program(0);
                match kind {
                    19 => Op::Child(id, program),
                    _ => Op::StartChild(id, program, self.rng.one_in(2)),
                }
            }
        }
    }
}

impl Story {
    /// The story of a seed.
    pub fn of(seed: u64) -> Self {
        let mut author = Author { rng: Rng::new(seed, 2), bombs: false, kids: 0, things: 0 };
        author.bombs = author.rng.one_in(6);
        let count = 1 + author.rng.below(3);
        // From numbers of its own: the other stories stay what they are.
        let keyed = Rng::new(seed, 4).one_in(5);
        let undoes = !keyed && Rng::new(seed, 5).one_in(4);
        let mut runs: Vec<_> = if keyed {
            (0..=count).map(|_| author.keyed()).collect()
        } else if undoes {
            (0..count).map(|_| author.undoing(1)).collect()
        } else {
            (0..count).map(|_| author.program(2)).collect()
        };
        if !keyed && !undoes && author.rng.one_in(10) {
            // A run that is never evicted: its engine has leases to renew, and more to do than one thing.
            let steady = author.rng.one_in(2);
            runs.push(if steady { vec![Op::Tool(1_200); 8] } else { vec![Op::Reads(60, 120)] });
        }
        let mut rng = author.rng;
        let mut deeds = deeds(&mut rng, &runs);
        if keyed {
            purges(&mut rng, &mut deeds);
        }
        if undoes {
            undoing::cancels(&mut rng, runs.len(), &mut deeds);
        }
        Self { runs, deeds, inline: rng.pick(&[40, 64 << 10]), slow: rng.one_in(3), file: false }
    }

    /// Every program that becomes a run, by the run's id.
    pub fn programs(&self) -> Vec<(String, &[Op])> {
        let mut found = Vec::new();
        for (number, program) in self.runs.iter().enumerate() {
            collect(format!("run{number}"), program, &mut found);
        }
        found
    }

    /// Whether any of its programs has such an operation.
    pub fn any(&self, is: impl Fn(&Op) -> bool) -> bool {
        let programs = self.programs();
        programs.iter().any(|(_, program)| contains(program, &is))
    }

    /// Whether such a thing is done in it.
    pub fn does(&self, is: impl Fn(&Deed) -> bool) -> bool {
        self.deeds.iter().any(|(_, deed)| is(deed))
    }

    /// Whether something is undone in it, perhaps.
    pub fn undoes(&self) -> bool {
        self.any(|op| matches!(op, Op::Make(..) | Op::HalfWay(..)))
    }

    /// Whether it needs people who approve and report.
    pub fn asks(&self) -> bool {
        self.any(|op| {
            matches!(
                op,
                Op::Approved(_)
                    | Op::Callback
                    | Op::Expiring(..)
                    | Op::Make(_, Undone::Agreed | Undone::Reported, _)
            )
        })
    }

    /// Nothing in it drops a body but an engine.
    pub fn keeps_bodies(&self) -> bool {
        // A child is told to end with its parent.
        let drops = |op: &Op| matches!(op, Op::Race(..) | Op::StartChild(..));
        !self.any(drops) && !self.does(|deed| matches!(deed, Deed::Cancel(..)))
    }
}

/// Adds a program and those of its children.
fn collect<'s>(run: String, program: &'s [Op], found: &mut Vec<(String, &'s [Op])>) {
    walk(program, &mut |op| {
        if let Op::Child(id, inner) | Op::StartChild(id, inner, _) = op {
            collect(id.clone(), inner, found);
        }
    });
    found.push((run, program));
}

/// Visits every operation of one run, also those in branches and in later generations.
pub fn walk<'s>(program: &'s [Op], visit: &mut impl FnMut(&'s Op)) {
    for op in program {
        visit(op);
        match op {
            Op::Race(a, b) | Op::Join(a, b) => [a, b].into_iter().for_each(|branch| walk(branch, visit)),
            Op::Continue(rest) => walk(rest, visit),
            _ => {}
        }
    }
}

/// Whether one run's program has such an operation.
pub fn contains(program: &[Op], is: &impl Fn(&Op) -> bool) -> bool {
    let mut found = false;
    walk(program, &mut |op| found |= is(op));
    found
}

fn deeds(rng: &mut Rng, runs: &[Vec<Op>]) -> Vec<(u64, Deed)> {
    let two = rng.one_in(2);
    let mut deeds = vec![(0, Deed::Up(0))];
    if two {
        deeds.push((rng.pick(&SPANS), Deed::Up(1)));
    }
    let slot = |rng: &mut Rng| usize::from(two && rng.one_in(2));
    let at = |rng: &mut Rng| rng.pick(&SPANS) + rng.pick(&SPANS);
    for number in 0..runs.len() {
        deeds.push((rng.below(3), Deed::Start(slot(rng), number)));
    }
    signals(rng, runs, &mut deeds, &slot);
    let some_run = |rng: &mut Rng| format!("run{}", rng.below(runs.len() as u64));
    if rng.one_in(6) {
        deeds.push((rng.pick(&SPANS), Deed::Cancel(slot(rng), some_run(rng))));
    }
    for _ in 0..if rng.one_in(3) { 1 + rng.below(3) } else { 0 } {
        // After the grace period, when the run may have been evicted.
        let at = rng.pick(&[0, 101, 150, 250, 400, 1_200]) + rng.below(20);
        deeds.push((at, Deed::Advance(slot(rng), some_run(rng), rng.pick(&[0, 20, 100, 300, 1_000, 5_000]))));
    }
    for _ in 0..if rng.one_in(2) { 1 + rng.below(2) } else { 0 } {
        let patience = if rng.one_in(2) { 60_000 } else { rng.below(1_000) };
        deeds.push((at(rng), Deed::Wait(slot(rng), some_run(rng), patience)));
    }
    trouble(rng, &mut deeds, &slot);
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}

/// Runs that have ended are deleted while others ask for the keys that they hold.
fn purges(rng: &mut Rng, deeds: &mut Vec<(u64, Deed)>) {
    for _ in 0..rng.below(3) {
        deeds.push((rng.pick(&SPANS) + rng.pick(&SPANS), Deed::Purge(0)));
    }
    deeds.sort_by_key(|(at, _)| *at);
}

/// A signal for every wait.
fn signals(rng: &mut Rng, runs: &[Vec<Op>], deeds: &mut Vec<(u64, Deed)>, slot: &impl Fn(&mut Rng) -> usize) {
    let mut programs = Vec::new();
    for (number, program) in runs.iter().enumerate() {
        collect(format!("run{number}"), program, &mut programs);
    }
    let large = rng.one_in(2);
    // In some stories they come close to each other, so that races are close.
    let close = rng.one_in(3);
    // In some they come late, so that runs are evicted before.
    let late = if rng.one_in(3) { 1_500 } else { 0 };
    for (run, program) in programs {
        let first = late + rng.pick(&SPANS);
        walk(program, &mut |op| {
            if let Op::Signal(name) | Op::SignalWithin(name, _) = op {
                let at = if close { first + rng.below(6) } else { first + rng.pick(&SPANS) };
                let via = (!rng.one_in(4)).then(|| slot(rng));
                deeds.push((at, Deed::Signal(via, run.clone(), *name, large && rng.one_in(2))));
            }
        });
    }
}

/// Shutdowns, drops, kills, pauses, leaps of the clock, and stores that fail.
fn trouble(rng: &mut Rng, deeds: &mut Vec<(u64, Deed)>, slot: &impl Fn(&mut Rng) -> usize) {
    let mut at = 0;
    for _ in 0..if rng.one_in(2) { 1 + rng.below(2) } else { 0 } {
        let slot = slot(rng);
        at += rng.pick(&SPANS);
        let down = match rng.below(8) {
            0 => Deed::Kill(slot),
            1 => Deed::Down(slot, None),
            2 => Deed::Down(slot, Some(rng.pick(&SPANS))),
            _ => Deed::Down(slot, Some(10_000)),
        };
        deeds.push((at, down));
        at += rng.pick(&SPANS);
        deeds.push((at, Deed::Up(slot)));
    }
    if rng.one_in(6) {
        let span = rng.pick(&[50, 500, 1_200, 3_000]);
        deeds.push((rng.pick(&SPANS), Deed::Pause(slot(rng), span)));
    }
    if rng.one_in(6) {
        let by = rng.pick(&[-60_000, -100, 2_000, 60_000, 60_000]);
        deeds.push((rng.pick(&SPANS) + rng.pick(&SPANS), Deed::Leap(by)));
    }
    if rng.one_in(6) {
        let (span, medium) =
            (rng.pick(&[1, 20, 200, 1_500]), rng.pick(&[Medium::Full, Medium::Locked, Medium::Gone]));
        deeds.push((rng.pick(&SPANS), Deed::Fault(slot(rng), span, medium)));
    }
}
