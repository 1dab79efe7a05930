//! Smaller stories: each with one thing less.
//!
//! Promise: no wait is left without its signal, so what is stuck in a smaller story is stuck by the engine's fault.

use super::{Deed, Op, Story, walk};

impl Story {
    /// The stories with one thing less, those with much less first.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for number in 0..self.runs.len() {
            all.extend(self.without_run(number));
        }
        for at in 1..self.deeds.len() {
            if !matches!(self.deeds[at].1, Deed::Signal(..) | Deed::Start(..)) {
                let mut less = self.clone();
                less.deeds.remove(at);
                all.push(less);
            }
        }
        for number in 0..self.runs.len() {
            for program in smaller(&self.runs[number]) {
                let mut less = self.clone();
                less.runs[number] = program;
                less.drop_spare_signals();
                all.push(less);
            }
        }
        if self.slow {
            all.push(Self { slow: false, ..self.clone() });
        }
        all
    }

    /// Runs keep their numbers: a run that is left out has an empty program and is not started.
    fn without_run(&self, number: usize) -> Option<Self> {
        let is_started = |deed: &Deed| matches!(deed, Deed::Start(_, n) if *n == number);
        if self.deeds.iter().filter(|(_, deed)| matches!(deed, Deed::Start(..))).count() < 2 {
            return None;
        }
        if !self.does(is_started) {
            return None;
        }
        let mut less = self.clone();
        less.runs[number].clear();
        let name = format!("run{number}");
        less.deeds.retain(|(_, deed)| match deed {
            Deed::Start(_, n) => *n != number,
            Deed::Signal(_, run, ..)
            | Deed::Cancel(_, run)
            | Deed::Advance(_, run, _)
            | Deed::Wait(_, run, _) => *run != name,
            _ => true,
        });
        less.drop_spare_signals();
        Some(less)
    }

    /// Signals to runs that are gone, and those beyond the waits of their name.
    fn drop_spare_signals(&mut self) {
        let mut waits = Vec::new();
        for (run, program) in self.programs() {
            walk(program, &mut |op| {
                if let Op::Signal(name) | Op::SignalWithin(name, _) = op {
                    waits.push((run.clone(), *name));
                }
            });
        }
        self.deeds.retain(|(_, deed)| match deed {
            Deed::Signal(_, run, name, _) => {
                let wanted = waits.iter().position(|wait| wait.0 == *run && wait.1 == *name);
                wanted.map(|at| waits.swap_remove(at)).is_some()
            }
            _ => true,
        });
    }
}

/// A program with one thing less, for each thing that can be left out.
fn smaller(program: &[Op]) -> Vec<Vec<Op>> {
    let mut all = Vec::new();
    for at in 0..program.len() {
        let with = |ops: &[Op]| [&program[..at], ops, &program[at + 1..]].concat();
        all.push(with(&[]));
        match &program[at] {
            Op::Race(a, b) => {
                all.extend([with(a), with(b)]);
                all.extend(smaller(a).into_iter().map(|a| with(&[Op::Race(a, b.clone())])));
                all.extend(smaller(b).into_iter().map(|b| with(&[Op::Race(a.clone(), b)])));
            }
            Op::Join(a, b) => {
                all.extend([with(a), with(b)]);
                all.extend(smaller(a).into_iter().map(|a| with(&[Op::Join(a, b.clone())])));
                all.extend(smaller(b).into_iter().map(|b| with(&[Op::Join(a.clone(), b)])));
            }
            Op::Child(id, inner) => {
                all.extend(smaller(inner).into_iter().map(|inner| with(&[Op::Child(id.clone(), inner)])));
            }
            Op::StartChild(id, inner, awaited) => {
                let kid = |inner| Op::StartChild(id.clone(), inner, *awaited);
                all.extend(smaller(inner).into_iter().map(|inner| with(&[kid(inner)])));
            }
            Op::Continue(rest) => {
                all.push(with(rest));
                all.extend(smaller(rest).into_iter().map(|rest| with(&[Op::Continue(rest)])));
            }
            _ => {}
        }
    }
    all
}
