//! Schedules from seeds: most have few choices, because few can be told apart, and some have many.
//!
//! Promise: a plan depends on the seed and the survey alone.

use std::collections::BTreeSet;
use std::time::Duration;

use super::plan::{Arrival, Choice, Decision, Message, MessageKind, Plan, Point, PointKind};
use super::survey::Survey;
use crate::sim::world::Entropy;

/// The longest time for which something is held, as a power of two of milliseconds: about 16 s, so that no lease ends.
const LONGEST: usize = 14;
/// How long a schedule holds things in all, unless a body has a time limit that is nearly as short.
const LEFT: Duration = Duration::from_secs(30);
/// Most points at which something is held.
const MOST: usize = 24;
/// So long idle runs stay in memory in some schedules.
const LONG_GRACE: Duration = Duration::from_secs(3600);

/// Draws the schedule of `seed`.
pub(crate) fn plan_of(seed: u64, survey: &Survey) -> Plan {
    let entropy = Entropy::new(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ 0x5EED);
    let left = survey.limit.map_or(LEFT, |limit| (limit / 2).min(LEFT));
    let mut draw = Draw { entropy, survey, choices: Vec::new(), left };
    draw.grace();
    draw.messages();
    draw.holds();
    draw.ends();
    Plan { choices: draw.choices }
}

struct Draw<'a> {
    entropy: Entropy,
    survey: &'a Survey,
    choices: Vec<Choice>,
    /// How long things may still be held: a body that takes too long is another story.
    left: Duration,
}

impl Draw<'_> {
    /// Whether something happens that happens `times` out of `of` times.
    fn chance(&self, times: usize, of: usize) -> bool {
        self.entropy.below(of) < times
    }

    /// A point of the survey, or a little beyond: other schedules have more of them. Each sort is as likely.
    fn point(&self) -> Point {
        let sort = self.entropy.below(PointKind::ALL.len());
        let kind = PointKind::ALL.get(sort).copied().unwrap_or(PointKind::Write);
        let count = self.survey.points.get(sort).copied().unwrap_or_default();
        let reach = (count + count / 4 + 1) as usize;
        Point { kind, number: u32::try_from(self.entropy.below(reach)).unwrap_or(0) + 1 }
    }

    /// A time, short ones as likely as long ones.
    fn wait(&self) -> Duration {
        let power = self.entropy.below(LONGEST);
        Duration::from_millis((1_u64 << power) + self.entropy.below(1 << power) as u64)
    }

    /// A time for which something is held.
    fn bounded(&mut self) -> Duration {
        let wait = self.wait().min(self.left);
        self.left -= wait;
        wait
    }

    fn grace(&mut self) {
        match self.entropy.below(8) {
            0 | 1 => self.choices.push(Choice::Grace(Duration::ZERO)),
            2 => self.choices.push(Choice::Grace(LONG_GRACE)),
            _ => {}
        }
    }

    fn messages(&mut self) {
        let kinds = [MessageKind::Signal, MessageKind::Cancel, MessageKind::Reply, MessageKind::Report];
        for (kind, count) in kinds.into_iter().zip(self.survey.messages) {
            for number in 1..=count {
                self.message(Message { kind, number });
            }
        }
    }

    fn message(&mut self, message: Message) {
        let arrival = match self.entropy.below(16) {
            0..=3 => return,
            4..=9 => Arrival::At(self.point()),
            10 | 11 => Arrival::After(Duration::ZERO),
            12..=14 => self.about_due(message.kind).unwrap_or_else(|| Arrival::After(self.wait())),
            _ => Arrival::After(self.wait()),
        };
        self.choices.push(Choice::Message(message, arrival));
        // Mostly what passes the point stands still until the message is there.
        if let Arrival::At(point) = arrival
            && self.chance(2, 3)
        {
            let decision = self.hold();
            self.choices.push(Choice::At(point, decision));
        }
    }

    /// The very moment at which the engine waits for a time, or just before or after it.
    fn about_due(&self, kind: MessageKind) -> Option<Arrival> {
        let dues: &BTreeSet<Duration> = match kind {
            MessageKind::Signal | MessageKind::Cancel => &self.survey.dues,
            MessageKind::Reply | MessageKind::Report => &self.survey.spans,
        };
        let due = dues.iter().nth(self.entropy.below(dues.len()))?;
        Some(Arrival::After(match self.entropy.below(4) {
            0 => due.saturating_sub(Duration::from_millis(1)),
            1 => due.saturating_add(Duration::from_millis(1)),
            _ => *due,
        }))
    }

    fn hold(&mut self) -> Decision {
        match self.entropy.below(8) {
            0..=3 => Decision::Yield(u32::try_from(self.entropy.below(4)).unwrap_or(0) + 1),
            4..=6 => Decision::Stall(self.bounded()),
            _ => Decision::Freeze(self.bounded()),
        }
    }

    fn holds(&mut self) {
        let count = match self.entropy.below(4) {
            0 => 0,
            1 | 2 => 1 + self.entropy.below(4),
            _ => {
                let points: u32 = self.survey.points.iter().sum();
                1 + self.entropy.below((points as usize / 4).clamp(1, MOST))
            }
        };
        for _ in 0..count {
            let choice = Choice::At(self.point(), self.hold());
            self.choices.push(choice);
        }
    }

    /// Deaths and shutdowns of the process.
    fn ends(&mut self) {
        let crashes = match self.entropy.below(16) {
            0..=3 => 1,
            4 => 2,
            _ => 0,
        };
        for _ in 0..crashes {
            self.choices.push(Choice::At(self.point(), Decision::Crash));
        }
        if self.chance(1, 6) {
            self.choices.push(Choice::At(self.point(), Decision::ShutDown));
        }
    }
}
