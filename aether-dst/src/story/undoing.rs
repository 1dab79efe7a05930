//! Programs that make things and undo them: in one place or in several, in branches that lose, and at their ends.

use super::{Author, Deed, Op, SPANS, Undone, contains};
use crate::rng::Rng;

impl Author {
    /// A program that makes things, and undoes them here and there.
    pub(super) fn undoing(&mut self, generations: u32) -> Vec<Op> {
        let mut ops: Vec<Op> = (0..1 + self.rng.below(2)).map(|_| self.make()).collect();
        if self.rng.one_in(4) {
            ops.push(self.beside());
        }
        ops.extend(match self.rng.below(8) {
            0 => vec![Op::Undo],
            1 | 2 => vec![Op::Join(self.undoer(), self.undoer())],
            3 | 4 => vec![Op::Race(self.undoer(), self.rival())],
            5 => {
                let inner = Op::Race(vec![Op::Undo], self.rival());
                vec![Op::Race(vec![inner, Op::Undo, Op::Sleep(1_200)], self.rival())]
            }
            6 => vec![Op::Join(self.undoer(), vec![self.beside(), self.make()])],
            _ => Vec::new(),
        });
        if self.rng.one_in(2) {
            ops.push(self.beside());
        }
        if self.rng.one_in(3) {
            ops.push(Op::Undo);
        }
        let is_race = |op: &Op| matches!(op, Op::Race(..));
        match self.rng.below(8) {
            0..=2 => ops.push(Op::Fail),
            // What a lost branch has begun to undo is not recorded in the next generation.
            3 | 4 if generations > 0 && !contains(&ops, &is_race) => {
                ops.push(Op::Continue(self.undoing(generations - 1)))
            }
            5 if generations > 0 => {
                self.kids += 1;
                ops.push(Op::Child(format!("kid{}", self.kids), self.undoing(0)));
            }
            _ => {}
        }
        ops
    }

    fn make(&mut self) -> Op {
        self.things += 1;
        let span = self.rng.pick(&[0, 0, 1, 20, 150, 300]);
        match self.rng.below(9) {
            0 | 1 => Op::Make(self.things, Undone::Once, span),
            2..=4 => Op::Make(self.things, Undone::Again, span),
            5 => Op::Make(self.things, Undone::Agreed, span),
            6 => Op::Make(self.things, Undone::Reported, span),
            7 => Op::Make(self.things, Undone::Never, span),
            _ => Op::HalfWay(self.things, span),
        }
    }

    /// A branch that undoes what was made.
    fn undoer(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        if self.rng.one_in(2) {
            ops.push(self.beside());
        }
        ops.push(Op::Undo);
        if self.rng.one_in(3) {
            ops.push(self.beside());
        }
        ops
    }

    /// A branch beside one that undoes.
    fn rival(&mut self) -> Vec<Op> {
        if self.rng.one_in(3) { self.undoer() } else { vec![self.beside()] }
    }

    fn beside(&mut self) -> Op {
        match self.rng.below(6) {
            0 | 1 => Op::Signal(self.name()),
            2 | 3 => Op::Sleep(self.span()),
            4 => Op::Read(self.span()),
            _ => Op::Expiring(self.rng.below(150), self.rng.pick(&[50, 100, 200])),
        }
    }
}

/// Runs are cancelled while they undo.
pub(super) fn cancels(rng: &mut Rng, runs: usize, deeds: &mut Vec<(u64, Deed)>) {
    if rng.one_in(2) {
        let run = format!("run{}", rng.below(runs as u64));
        deeds.push((rng.pick(&SPANS) + rng.pick(&SPANS), Deed::Cancel(0, run)));
        deeds.sort_by_key(|(at, _)| *at);
    }
}
