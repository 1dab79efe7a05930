//! Rolling deploys of two real builds over runs that are decided meanwhile, on a file and on Postgres: the workers of the
//! old build are drained, or killed while they drain, when those of the new one are ready.
//!
//! `AETHER_STORE=postgres-portable` or `postgres-pgbouncer` chooses the way to Postgres.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::kit::{Agent, Home, is_paid, one_waiting};
use crate::postgres::way::Way;
use crate::seeds::kit::is_full_sweep;

fn leave_each_other_their_runs(home: Home) {
    let home = one_waiting(home);
    let mut old = Agent::start("base", &home);
    let mut new = Agent::start("read_before_consent", &home);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(new.ask("parked"), "0", "the old build is there to advance it");
    assert_eq!(new.ask("start 8"), "claim-8");
    new.until("status claim-8", "waiting");
    // Told by whoever has not their code.
    assert_eq!(new.ask("approve claim-7"), "approved");
    assert_eq!(old.ask("approve claim-8"), "approved");
    let end = new.ask("end claim-7");
    assert!(is_paid(&end), "{end}");
    let end = old.ask("end claim-8");
    assert!(end.contains("paid 8"), "{end}");
    assert_eq!(old.ask("start 9"), "claim-9");
    old.until("status claim-9", "waiting");
    old.stop();
    new.until("parked", "1");
    new.stop();
    assert_eq!((home.calls("reserve"), home.calls("pay")), (3, 2));
}

#[test]
fn builds_beside_each_other_leave_each_other_their_runs() {
    leave_each_other_their_runs(Home::file("rolling.db"));
}

#[test]
fn builds_beside_each_other_on_postgres_leave_each_other_their_runs() {
    leave_each_other_their_runs(Home::on(Way::chosen()));
}

/// Runs that are open in a deploy.
fn many() -> u32 {
    if is_full_sweep() { 1_000 } else { 300 }
}

/// Two builds whose difference is behind all that is recorded.
struct Deploy {
    /// Of each build.
    workers: usize,
    /// Runs that are open when the new build comes.
    runs: u32,
    /// Whether the first old worker is killed while it drains.
    is_killed: bool,
}

impl Deploy {
    /// Deploys, and judges what came of each run.
    fn on(&self, home: &Home) {
        let mut client = Agent::with("base", home, "client");
        let mut old = self.begin(home);
        let (tenth, runs) = (self.runs / 10, self.runs);
        approve(&mut client, 0..3 * tenth);

        let began = Instant::now();
        let mut new: Vec<_> = (0..self.workers).map(|_| Agent::start("later", home)).collect();
        for new in &mut new {
            new.until("ready", "true");
        }
        let ready = began.elapsed();
        assert_eq!(workers(&mut client), 2 * self.workers);
        let cut = if self.is_killed {
            new[0].until("completed", &(3 * tenth).to_string());
            let cut = kill_in_its_drain(old.remove(0), &mut client, home, 3 * tenth..5 * tenth);
            // The payments that were under way are the old build's: the next worker of it goes when they are decided.
            for number in &cut {
                let end = client.ask(&format!("end claim-{number}"));
                assert!(end.contains("in doubt"), "{end}");
            }
            cut
        } else {
            approve(&mut client, 3 * tenth..5 * tenth);
            BTreeSet::new()
        };
        for old in &mut old {
            let drained = old.ask("drain");
            assert!(drained.contains("cut_off: 0"), "{drained}");
            assert_eq!(old.ask("ready"), "false");
        }
        let drained = began.elapsed();

        // A drained one still takes words, and starts runs for the others.
        approve(&mut old[0], 5 * tenth..runs);
        assert_eq!(old[0].ask(&format!("start {runs}")), format!("claim-{runs}"));
        new[0].until(&format!("status claim-{runs}"), "waiting");
        approve(&mut old[0], runs..runs + 1);
        let end = old[0].ask(&format!("end claim-{runs}"));
        assert!(end.contains(&format!("paid {runs}")), "{end}");
        old.into_iter().for_each(Agent::stop);
        self.judge(&mut new[0], home, &cut);
        println!(
            "{}: {} workers of the new build were ready after {ready:?}, the old ones drained after {drained:?}, {} runs \
             ended after {:?}; {} in doubt",
            home.kind(),
            self.workers,
            runs + 1,
            began.elapsed(),
            cut.len()
        );
        new.into_iter().chain([client]).for_each(Agent::stop);
    }

    /// The workers of the old build, with all runs waiting.
    fn begin(&self, home: &Home) -> Vec<Agent> {
        let mut old = vec![Agent::start("base", home)];
        let others = if self.is_killed { "seldom" } else { "" };
        old.extend((1..self.workers).map(|_| Agent::with("base", home, others)));
        old[0].ask(&format!("many {}", self.runs));
        old[0].until("waiting", &self.runs.to_string());
        old
    }

    /// Each run is paid with one call, but for those of `cut`: the outcome of their calls is not known.
    fn judge(&self, new: &mut Agent, home: &Home, cut: &BTreeSet<u32>) {
        for number in 0..=self.runs {
            let end = new.ask(&format!("end claim-{number}"));
            let wanted =
                if cut.contains(&number) { "in doubt".to_owned() } else { format!("paid {number}\"") };
            assert!(end.contains(&wanted), "claim-{number}: {end}, and not {wanted}");
        }
        assert_eq!(new.ask("parked"), "0");
        let called = |what: &str| {
            let mut claims: Vec<_> = home.called(what).into_iter().map(|(claim, _)| claim).collect();
            claims.sort_unstable();
            claims
        };
        let all: Vec<_> = (0..=self.runs).collect();
        assert_eq!((called("reserve"), called("pay")), (all.clone(), all), "each body was called once");
        assert_eq!(called("give_back"), cut.iter().copied().collect::<Vec<_>>());
    }
}

fn approve(agent: &mut Agent, claims: impl IntoIterator<Item = u32>) {
    for number in claims {
        assert_eq!(agent.ask(&format!("approve claim-{number}")), "approved");
    }
}

/// How many workers there are that advance runs.
fn workers(client: &mut Agent) -> usize {
    client.ask("workers").split(' ').filter(|worker| !worker.starts_with("0/")).count()
}

/// Kills a worker whose drain waits for payments that are under way, while claims are approved. Gives those whose payment
/// was cut off.
fn kill_in_its_drain(
    mut worker: Agent,
    client: &mut Agent,
    home: &Home,
    claims: std::ops::Range<u32>,
) -> BTreeSet<u32> {
    worker.ask("stall");
    let middle = claims.start.midpoint(claims.end);
    approve(&mut worker, claims.start..middle);
    // Whichever worker took it, each payment is under way.
    let until = Instant::now() + Duration::from_secs(300);
    while home.calls("pay") < usize::try_from(middle).unwrap() {
        assert!(Instant::now() < until, "{} payments were begun", home.calls("pay"));
        std::thread::sleep(Duration::from_millis(10));
    }
    worker.ask("begin_drain");
    worker.until("ready", "false");
    // It takes words while it drains, and no runs.
    let last = middle.midpoint(claims.end);
    approve(&mut worker, middle..last);
    assert_eq!(worker.ask("drained"), "false", "payments are under way");
    let pid = worker.pid();
    worker.kill();
    let paid = home.called("pay").into_iter().filter(|(claim, by)| *by == pid && *claim >= claims.start);
    let cut: BTreeSet<u32> = paid.map(|(claim, _)| claim).collect();
    assert!(!cut.is_empty(), "no payment was under way");
    assert!(cut.iter().all(|claim| *claim < middle), "a worker that drains took {cut:?}");
    approve(client, last..claims.end);
    cut
}

#[test]
fn a_rolling_deploy_loses_and_parks_nothing_that_fits() {
    Deploy { workers: 1, runs: many(), is_killed: false }.on(&Home::file("deploy.db"));
}

#[test]
fn a_rolling_deploy_on_postgres_loses_and_parks_nothing_that_fits() {
    Deploy { workers: 2, runs: many(), is_killed: false }.on(&Home::on(Way::chosen()));
}

/// In the other ways with fewer runs; `AETHER_STORE` chooses one of them for all of the runs.
#[test]
fn a_rolling_deploy_in_portable_mode_loses_and_parks_nothing_that_fits() {
    Deploy { workers: 2, runs: 100, is_killed: false }.on(&Home::on(Way::Portable));
}

#[test]
fn a_rolling_deploy_through_pgbouncer_loses_and_parks_nothing_that_fits() {
    Deploy { workers: 2, runs: 100, is_killed: false }.on(&Home::on(Way::Pooler));
}

#[test]
fn a_worker_that_is_killed_in_its_drain_leaves_every_run_to_the_others() {
    Deploy { workers: 2, runs: 100, is_killed: true }.on(&Home::file("killed.db"));
}

#[test]
fn a_worker_on_postgres_that_is_killed_in_its_drain_leaves_every_run_to_the_others() {
    Deploy { workers: 2, runs: 100, is_killed: true }.on(&Home::on(Way::chosen()));
}
