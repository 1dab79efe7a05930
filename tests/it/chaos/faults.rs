//! What happens to the workers, in an order that is drawn from a deck: every kind comes as often as its cards say.

use std::time::Duration;

use fastrand::Rng;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// `SIGKILL`, and a new process.
    Kill,
    /// `SIGSTOP`, and `SIGCONT` after a while, mostly longer than a lease.
    Pause,
    /// `BEGIN EXCLUSIVE` on the file.
    Lock,
    /// No room on the disk.
    Full,
    /// The clock of a worker is set to another day.
    Leap,
    /// `SIGTERM`: the engine shuts down, the process ends, and a new one begins.
    Shutdown,
    /// Postgres is stopped as by a crash, and started again.
    Restart,
    /// For a while nobody is paused or kept from writing.
    Quiet,
}

impl Fault {
    /// Whether it hits all workers at once, in what they have in common.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::Lock | Self::Full | Self::Restart)
    }

    /// How long it lasts.
    pub(super) fn lasts(self, rng: &mut Rng, lease: Duration, long: bool) -> Duration {
        let ms = |low: u64, high: u64, rng: &mut Rng| Duration::from_millis(rng.u64(low..high));
        match self {
            // Until the next process begins, or the server.
            Self::Kill | Self::Shutdown | Self::Restart => ms(0, 1_500, rng),
            Self::Pause if rng.u32(0..4) == 0 => ms(100, 1_000, rng),
            Self::Pause => lease + ms(200, if long { 6_000 } else { 2_500 }, rng),
            Self::Lock if long && rng.u32(0..4) == 0 => ms(10_000, 40_000, rng),
            Self::Lock if long => ms(100, 4_000, rng),
            Self::Lock => ms(2_000, 3_000, rng),
            Self::Full => ms(500, if long { 8_000 } else { 2_500 }, rng),
            Self::Leap => Duration::ZERO,
            Self::Quiet if long => ms(4_500, 7_000, rng),
            Self::Quiet => ms(500, 1_500, rng),
        }
    }
}

/// The faults that are yet to come before the cards are shuffled again.
#[derive(Debug)]
pub(super) struct Deck {
    cards: &'static [(Fault, usize)],
    left: Vec<Fault>,
}

impl Deck {
    pub(super) fn new(cards: &'static [(Fault, usize)]) -> Self {
        Self { cards, left: Vec::new() }
    }

    pub(super) fn draw(&mut self, rng: &mut Rng) -> Fault {
        if self.left.is_empty() {
            self.left = self.cards.iter().flat_map(|(fault, cards)| vec![*fault; *cards]).collect();
            rng.shuffle(&mut self.left);
        }
        self.left.pop().unwrap()
    }

    /// A fault that cannot be done now comes last.
    pub(super) fn put_back(&mut self, fault: Fault) {
        self.left.insert(0, fault);
    }
}

/// A fault that happened.
#[derive(Clone, Debug)]
pub(super) struct Happened {
    pub(super) fault: Fault,
    /// The process; 0 for those that concern all.
    pub(super) pid: u32,
    /// Microseconds of the common clock.
    pub(super) from: u64,
    pub(super) until: u64,
}
