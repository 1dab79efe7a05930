//! Generated programs that are forked at every command: the plan names exactly the calls behind the cut that may have
//! changed the world, as the stage saw them; a fork replays what it copied, repeats nothing that it keeps, and ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aether::engine::{BilledCall, CallOutcome, ForkDecision, ForkPlan, Limits, RunEnd};
use aether::error::ForkError;
use aether::id::{CommandId, RunId};
use aether::prelude::*;
use aether::store::event::Event;
use aether::store::{MemoryStore, Store};
use aether_testing::SimEnvironment;
use jiff::Timestamp;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::lives::{End, Keeping, One, RUN, journal, journals, operate, runtime};
use super::program::{Case, case};
use super::stage::{Deeds, Life, Stage};
use super::steps::AsLeft;

/// The most forks of one program that are started.
const STARTED: usize = 6;

type Verdict<T = ()> = Result<T, String>;

#[test]
fn a_plan_names_the_calls_behind_every_cut_of_a_program() {
    let cases = std::env::var("AETHER_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(30_u64);
    let first = std::env::var("AETHER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    let mut tally = Tally::default();
    for seed in first..first + cases {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let program = case(false).new_tree(&mut runner).unwrap().current();
        if let Err(broken) = forked(&program, &mut tally) {
            panic!("{broken}\n{program:#?}\nreproduce: AETHER_SEED={seed} AETHER_CASES=1");
        }
    }
    println!("{cases} programs: {tally:?}");
    if cases >= 30 {
        assert!(tally.plans > 150 && tally.forks > 50 && tally.kept > 10, "{tally:?}");
        assert!(tally.undone > 0 && tally.lost > 0, "{tally:?}");
    }
}

#[derive(Debug, Default)]
struct Tally {
    plans: u32,
    undone: u32,
    lost: u32,
    forks: u32,
    kept: u32,
}

fn forked(case: &Case, tally: &mut Tally) -> Verdict {
    let (store, stage): (Arc<dyn Store>, _) = (Arc::new(MemoryStore::new()), Stage::default());
    let at = Timestamp::from_second(1_767_225_600).map_err(|error| error.to_string())?;
    let runtime = runtime(Keeping::Memory);
    runtime.block_on(async {
        let life = One::begin(case, &stage, &store, Keeping::Memory, at, case.seed, None);
        let End::Ended(_) = life.live().await? else { return Err("it died".into()) };
        stage.begin(Life { store: None, death: None, tempo: 0, unit: 1000, bodies: 0, on_server: false });
        let later = at.saturating_add(Duration::from_secs(90 * 24 * 3600)).unwrap_or(at);
        let world = Arc::new(SimEnvironment::new(later, case.seed ^ 1));
        let limits = Limits { inline: case.inline, ..Limits::default() };
        let builder = Engine::builder().environment(world).store(store.clone()).provide(stage.clone());
        let builder = builder.limits(limits).verifier("file", AsLeft).lease(Duration::from_secs(20));
        let engine = builder.start().await.map_err(|error| error.to_string())?;
        let recorded = journals(&*store).await?;
        for (run, events) in &recorded {
            for (number, cut) in cuts(events).into_iter().enumerate() {
                let plan = planned(&engine, run, events, &cut, &stage.deeds(), tally).await?;
                let Some(plan) = plan.filter(|_| run == RUN && number < STARTED) else { continue };
                started(&engine, &stage, plan, &cut, tally)
                    .await
                    .map_err(|broken| format!("{cut}: {broken}"))?;
            }
        }
        Ok(())
    })
}

/// Every command that the workflow asked for.
fn cuts(events: &[Event]) -> Vec<CommandId> {
    let undoes = |command: &CommandId| command.place().split('.').any(|part| part == "undo");
    let mut cuts = Vec::new();
    for command in events.iter().filter_map(Event::command) {
        if !undoes(command) && !cuts.contains(command) {
            cuts.push(command.clone());
        }
    }
    cuts
}

/// Where a command's answer stands.
fn answered(events: &[Event], command: &CommandId) -> Option<usize> {
    let commits = |event: &Event| matches!(event, Event::CommandCommitted(e) if e.command == *command);
    events.iter().position(commits)
}

/// The commands behind a cut of which the stage saw a call, or that started a run.
fn behind(run: &str, events: &[Event], at: usize, deeds: &BTreeMap<String, Deeds>) -> BTreeSet<CommandId> {
    let called = |command: &CommandId| {
        let prefix = format!("aether:{run}:{command}:");
        deeds
            .keys()
            .any(|key| key.strip_prefix(&prefix).is_some_and(|attempt| attempt.parse::<u32>().is_ok()))
    };
    let mut found = BTreeSet::new();
    for event in events {
        let command = match event {
            Event::NodeStarted(e) if e.class.changes_world() && called(&e.command) => &e.command,
            Event::ChildStarted(e) => &e.command,
            _ => continue,
        };
        let abandoned = events
            .iter()
            .take(at)
            .any(|event| matches!(event, Event::InvocationAbandoned(e) if e.command == *command));
        // A branch that lost its race before the cut is over: what it had begun is not behind it.
        let lost = events.iter().take(at).any(|event| match event {
            Event::RaceDecided(e) => command.is_within(e.command.place()) && !command.is_within(&e.winner),
            _ => false,
        });
        if !abandoned && !lost && answered(events, command).is_none_or(|answered| answered >= at) {
            found.insert(command.clone());
        }
    }
    found.retain(|command| !command.place().split('.').any(|part| part == "undo"));
    found
}

/// Compares the plan for a cut with what the stage saw; `None` where the run cannot be cut there, rightly.
async fn planned(
    engine: &Engine,
    run: &str,
    events: &[Event],
    cut: &CommandId,
    deeds: &BTreeMap<String, Deeds>,
    tally: &mut Tally,
) -> Verdict<Option<ForkPlan>> {
    let id = RunId::new(run).map_err(|error| error.to_string())?;
    let inside = |event: &Event| event.command().is_some_and(|c| c == cut || c.is_within(cut.place()));
    let at = events.iter().position(inside).unwrap_or(events.len());
    let undone = events.iter().skip(at).any(|event| {
        matches!(event, Event::StepCompensated(e) if answered(events, &e.undoes).is_some_and(|done| done < at))
    });
    let lost = events.iter().any(|event| match event {
        Event::RaceDecided(e) => cut.is_within(e.command.place()) && !cut.is_within(&e.winner),
        _ => false,
    });
    let plan = match engine.fork(&id).before(cut.as_str()).plan().await {
        Err(ForkError::LostRace { .. }) if lost => {
            tally.lost += 1;
            return Ok(None);
        }
        Err(ForkError::UndoneBefore { .. }) if undone => {
            tally.undone += 1;
            return Ok(None);
        }
        Err(error) => return Err(format!("{run} before {cut}: {error}")),
        Ok(_) if lost || undone => return Err(format!("{run} is cut before {cut}")),
        Ok(plan) => plan,
    };
    tally.plans += 1;
    let made = |call: &&BilledCall| call.key.is_some() || call.child.is_some();
    let listed: BTreeSet<_> = plan.calls().iter().filter(made).map(|call| call.command.clone()).collect();
    let wanted = behind(run, events, at, deeds);
    if listed != wanted {
        return Err(format!("{run} before {cut}: {listed:?} are listed, {wanted:?} were made: {events:#?}"));
    }
    for call in plan.calls().iter().filter(|call| call.child.is_none() && !call.needs_decision()) {
        let prefix = format!("aether:{run}:{}:", call.command);
        let changed = deeds.iter().any(|(key, deeds)| key.starts_with(&prefix) && deeds.changes > 0);
        if changed && call.outcome != CallOutcome::Compensated {
            return Err(format!(
                "{run} before {cut}: {} is {} and changed the world",
                call.command, call.outcome
            ));
        }
    }
    Ok(Some(plan))
}

/// Starts the fork, keeps all that can be kept, and waits for its end.
async fn started(
    engine: &Engine,
    stage: &Stage,
    plan: ForkPlan,
    cut: &CommandId,
    tally: &mut Tally,
) -> Verdict {
    let mut plan = plan.keep_all();
    let left: Vec<_> = plan.undecided().map(|call| call.command.clone()).collect();
    for command in left {
        plan = plan.again(command.as_str());
    }
    let kept: Vec<_> =
        plan.calls().iter().filter(|call| call.decision == Some(ForkDecision::Keep)).cloned().collect();
    let handle = plan.start("ada").await.map_err(|error| error.to_string())?;
    let operator = tokio::spawn(operate(engine.clone(), stage.clone(), 1000));
    let end = tokio::time::timeout(Duration::from_secs(24 * 3600), handle.end()).await;
    operator.abort();
    let fork = handle.id();
    let events = journal(&**engine.store(), fork).await?;
    match end {
        Ok(Ok(RunEnd::Completed(_) | RunEnd::Failed { .. })) => {}
        other => return Err(format!("{fork} does not end: {other:?} {events:#?}")),
    }
    tally.forks += 1;
    for call in kept {
        let same = |event: &Event| matches!(event, Event::NodeStarted(e) if e.command == call.command && Some(&e.digest) == call.digest.as_ref());
        let prefix = format!("aether:{fork}:{}:", call.command);
        if events.iter().any(same) && call.child.is_none() {
            tally.kept += 1;
            if stage.deeds().keys().any(|key| key.starts_with(&prefix)) {
                return Err(format!("{} was kept and made again", call.command));
            }
        }
    }
    let verified = engine.verify(fork).await.map_err(|error| format!("{fork}, cut before {cut}: {error}"))?;
    if verified.recorded != verified.matched {
        return Err(format!("{fork}: {verified}"));
    }
    Ok(())
}
