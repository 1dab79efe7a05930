//! The choices that make a schedule.
//!
//! Promise: a plan is data; two equal plans make two equal simulations.

use std::time::Duration;

/// What passes a point, each sort counted from 1 over all processes of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PointKind {
    /// A write of the engine is about to be done. Those behind it wait.
    Write,
    /// The answer to a write is about to come.
    Ack,
    /// A read of the engine is about to be done.
    Read,
    /// The answer to a read is about to come.
    Found,
    /// A body is about to begin.
    Body,
    /// What a body returned is about to reach the engine.
    Return,
    /// A timer of the engine is about to fire.
    Timer,
}

impl PointKind {
    pub(crate) const ALL: [Self; 7] =
        [Self::Write, Self::Ack, Self::Read, Self::Found, Self::Body, Self::Return, Self::Timer];
}

/// A moment at which something may be held, end or arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub(crate) kind: PointKind,
    pub(crate) number: u32,
}

/// What happens to that which passes a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Everything else that is ready goes first, this many times.
    Yield(u32),
    /// It is held for this long.
    Stall(Duration),
    /// It is held for this long, and so is everything else of the process that passes a point meanwhile.
    Freeze(Duration),
    /// The process dies.
    Crash,
    /// The process is asked to shut down.
    ShutDown,
}

/// What comes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MessageKind {
    /// A signal of the test, by its place among them.
    Signal,
    /// A request to cancel, by its place among them.
    Cancel,
    /// A decision or an answer, by the order in which they are asked for.
    Reply,
    /// A report about a callback, by the order in which bodies handed over.
    Report,
}

/// One message from outside, counted from 1 in its sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) kind: MessageKind,
    pub(crate) number: u32,
}

/// When a message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// When this point is passed.
    At(Point),
    /// So long after the beginning; a reply and a report so long after they are asked for.
    After(Duration),
}

/// One choice of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    At(Point, Decision),
    Message(Message, Arrival),
    /// How long an idle run stays in memory.
    Grace(Duration),
}

/// All choices of a schedule. Whatever they do not mention is as in a plain simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) choices: Vec<Choice>,
}

impl Plan {
    pub(crate) fn decisions(&self, at: Point) -> impl Iterator<Item = Decision> {
        self.choices.iter().filter_map(move |choice| match choice {
            Choice::At(point, decision) if *point == at => Some(*decision),
            _ => None,
        })
    }

    pub(crate) fn arrival(&self, of: Message) -> Option<Arrival> {
        self.choices.iter().find_map(|choice| match choice {
            Choice::Message(message, arrival) if *message == of => Some(*arrival),
            _ => None,
        })
    }

    pub(crate) fn grace(&self) -> Option<Duration> {
        self.choices.iter().find_map(|choice| match choice {
            Choice::Grace(grace) => Some(*grace),
            _ => None,
        })
    }

    /// All time that it holds things for.
    pub(crate) fn held(&self) -> Duration {
        let held = self.choices.iter().map(|choice| match choice {
            Choice::At(_, Decision::Stall(wait) | Decision::Freeze(wait)) => *wait,
            _ => Duration::ZERO,
        });
        held.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// All time that it lets messages wait for.
    pub(crate) fn late(&self) -> Duration {
        let late = self.choices.iter().map(|choice| match choice {
            Choice::Message(_, Arrival::After(wait)) => *wait,
            _ => Duration::ZERO,
        });
        late.fold(Duration::ZERO, Duration::saturating_add)
    }
}
