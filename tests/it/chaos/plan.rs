//! How long everything takes, and from which seed it is drawn.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

/// How much is done.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Worker processes.
    pub(super) workers: usize,
    /// Runs that are started at least.
    pub(super) runs: u32,
    /// How often what all workers have in common is restarted.
    pub(super) restarts: u32,
    pub(super) faulty: Duration,
    /// Whether faults are as long as they get in production.
    pub(super) long: bool,
    pub(super) lease: Duration,
    /// Runs that are open at once.
    pub(super) open: u32,
    /// Time between the starts of two runs.
    pub(super) between_starts: Duration,
    /// Time between two faults, at most.
    pub(super) between_faults: Duration,
    /// For so long no run may end once nothing happens any more, while some are open.
    pub(super) calm: Duration,
}

impl Plan {
    /// That of three processes on one file.
    pub(super) fn on_file() -> Self {
        Self::chosen("AETHER_CHAOS", 20)
    }

    /// That of four processes on Postgres: a fault is drawn every 300 ms, and in 600 s there are 2,500 runs at least, which
    /// begin more than 20,000 steps.
    pub(super) fn on_postgres() -> Self {
        let plan = Self::chosen("AETHER_CHAOS_POSTGRES", 24);
        let millis = u64::try_from(plan.faulty.as_millis()).unwrap();
        let runs = u32::try_from(millis / 240).unwrap_or(u32::MAX);
        let (runs, open, between) = if plan.long { (runs, 80, 240) } else { (0, 40, 150) };
        Self {
            workers: 4,
            runs,
            restarts: 3,
            open,
            between_starts: Duration::from_millis(between),
            between_faults: Duration::from_millis(550),
            ..plan
        }
    }

    fn chosen(time: &str, short: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
        let seconds = number(time);
        let millis = Duration::from_millis;
        let seed = number("AETHER_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000_000));
        // Shorter ones would tell of the machine, and not of the engine: a process that has no processor for half of it
        // loses its runs.
        let leases = if seconds.is_some() { [1_000, 1_500, 3_000] } else { [800, 1_200, 2_000] };
        Self {
            seed,
            workers: 3,
            runs: 0,
            restarts: 0,
            faulty: Duration::from_secs(seconds.unwrap_or(short)),
            long: seconds.is_some(),
            lease: millis(leases[Rng::with_seed(!seed).usize(..leases.len())]),
            open: 40,
            between_starts: millis(if seconds.is_some() { 250 } else { 150 }),
            between_faults: millis(if seconds.is_some() { 2000 } else { 600 }),
            calm: Duration::from_secs(120),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, lease) = (self.faulty.as_secs(), self.lease);
        write!(f, "chaos for {time} s with leases of {lease:?}, AETHER_CHAOS_SEED={}", self.seed)
    }
}
