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
    /// For a while nobody is paused or kept from writing.
    Quiet,
}

impl Fault {
    pub(super) const ALL: [Self; 7] =
        [Self::Kill, Self::Pause, Self::Lock, Self::Full, Self::Leap, Self::Shutdown, Self::Quiet];

    fn cards(self) -> usize {
        match self {
            Self::Kill | Self::Pause => 4,
            Self::Leap | Self::Shutdown => 2,
            Self::Lock | Self::Full | Self::Quiet => 1,
        }
    }

    /// How long it lasts.
    pub(super) fn lasts(self, rng: &mut Rng, lease: Duration, long: bool) -> Duration {
        let ms = |low: u64, high: u64, rng: &mut Rng| Duration::from_millis(rng.u64(low..high));
        match self {
            // Until the next process begins.
            Self::Kill | Self::Shutdown => ms(0, 1_500, rng),
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
#[derive(Debug, Default)]
pub(super) struct Deck(Vec<Fault>);

impl Deck {
    pub(super) fn draw(&mut self, rng: &mut Rng) -> Fault {
        if self.0.is_empty() {
            self.0 = Fault::ALL.into_iter().flat_map(|fault| vec![fault; fault.cards()]).collect();
            rng.shuffle(&mut self.0);
        }
        self.0.pop().unwrap()
    }

    /// A fault that cannot be done now comes last.
    pub(super) fn put_back(&mut self, fault: Fault) {
        self.0.insert(0, fault);
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
