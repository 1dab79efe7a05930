//! The orders in which the bodies of concurrent branches come back, one after another: every one there is, or as many
//! as there is time for.
//!
//! Promise: a body that has come back is held until nothing else can go on; then one of those that are held is let go.
//! So each run has one order, which its choices name, and which the same choices give again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aether_core::event::Event;
use aether_core::id::CommandId;
use aether_core::payload::Payload;
use aether_core::step::Workflow;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, oneshot};

use super::boundaries::test_name;
use super::crashes::{commands, undisturbed};
use super::life::simulate;
use super::world::Entropy;
use super::{Running, Settings, Sim, SimError, SimReport};

/// Environment variable with the one order to try.
const ONLY: &str = "AETHER_ORDER";
/// The shortest wait in virtual time: it is over when nothing else can go on.
const INSTANT: Duration = Duration::from_millis(1);

/// What trying orders showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderReport {
    /// Number of different orders that were tried.
    pub orders: usize,
    /// Whether these are all there are.
    pub exhaustive: bool,
    /// Most bodies that were held at one time.
    pub most_at_once: usize,
    /// Number of different ways in which the run's races were won.
    pub outcomes: usize,
    /// Seeds of the orders that were drawn, where there are too many to try all.
    pub seeds: Vec<u64>,
}

impl fmt::Display for OrderReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { orders, exhaustive, outcomes, seeds, .. } = self;
        let all = if *exhaustive { "all there are" } else { "not all there are" };
        write!(f, "{orders} orders ({all}), {outcomes} outcomes of races")?;
        if seeds.is_empty() { Ok(()) } else { write!(f, ", {} drawn with seeds {seeds:?}", seeds.len()) }
    }
}

/// Holds bodies that came back, and lets them go one by one.
#[derive(Debug)]
pub(super) struct Orders {
    state: Mutex<Queue>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    held: BTreeMap<String, oneshot::Sender<()>>,
    plan: Vec<usize>,
    draws: Option<Entropy>,
    /// Number of the body that was let go among those that were held, and their number; where there was a choice.
    choices: Vec<(usize, usize)>,
    /// Bodies in the order in which they were let go.
    names: Vec<String>,
    most_at_once: usize,
}

impl Queue {
    /// Lets one body go, if one is held.
    fn let_one_go(&mut self) {
        // Nobody waits any more for a body whose branch has lost a race.
        self.held.retain(|_, held| !held.is_closed());
        let count = self.held.len();
        self.most_at_once = self.most_at_once.max(count);
        let choice = if count > 1 { self.choose(count) } else { 0 };
        let Some(name) = self.held.keys().nth(choice).cloned() else { return };
        if let Some(held) = self.held.remove(&name) {
            let _its_branch_was_dropped = held.send(());
        }
        self.names.push(name);
    }

    fn choose(&mut self, count: usize) -> usize {
        let planned = self.plan.get(self.choices.len()).copied();
        let drawn = || self.draws.as_ref().map(|draws| draws.below(count));
        let choice = planned.or_else(drawn).unwrap_or(0).min(count - 1);
        self.choices.push((choice, count));
        choice
    }
}

impl Orders {
    fn new(plan: Vec<usize>, draws: Option<Entropy>) -> Self {
        Self { state: Mutex::new(Queue { plan, draws, ..Queue::default() }), arrived: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a body that came back until it is let go.
    pub(super) async fn pass(&self, name: String) {
        let (held, released) = oneshot::channel();
        {
            let held_before = &mut self.state().held;
            let again = (2..).map(|number| format!("{name} ({number})"));
            let free =
                std::iter::once(name.clone()).chain(again).find(|name| !held_before.contains_key(name));
            held_before.insert(free.unwrap_or(name), held);
        }
        self.arrived.notify_one();
        let _let_go = released.await;
    }

    /// Lets bodies go; does not return.
    pub(super) async fn release(&self) {
        loop {
            if self.state().held.is_empty() {
                self.arrived.notified().await;
            }
            tokio::time::sleep(INSTANT).await;
            self.state().let_one_go();
        }
    }
}

/// An order: the choices that lead to it, and the bodies in it.
#[derive(Clone, Debug)]
struct Order {
    choices: Vec<(usize, usize)>,
    names: Vec<String>,
}

impl Order {
    fn id(&self) -> String {
        let choices: Vec<String> = self.choices.iter().map(|(choice, _)| choice.to_string()).collect();
        choices.join(".")
    }

    /// The choices of the next order, depth first.
    fn next(&self) -> Option<Vec<usize>> {
        let last = self.choices.iter().rposition(|(choice, count)| choice + 1 < *count)?;
        let mut plan: Vec<usize> = self.choices.iter().take(last + 1).map(|(choice, _)| *choice).collect();
        *plan.last_mut()? += 1;
        Some(plan)
    }
}

/// What must be the same in every order in which races are won in the same way.
#[derive(Debug)]
struct Seen {
    order: Order,
    ended: String,
    commands: BTreeMap<CommandId, String>,
    /// The commands of each scope in the order in which they ended.
    scopes: BTreeMap<String, Vec<String>>,
    calls: BTreeSet<String>,
}

impl Seen {
    fn of<W: Workflow>(order: Order, report: &SimReport<W>) -> Self {
        let races = races(&report.events);
        let counts = |command: &CommandId| !is_lost(&races, command);
        let mut scopes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for event in &report.events {
            let Event::NodeFinished(finished) = event else { continue };
            if counts(&finished.command) {
                let place = finished.command.place();
                let scope = place.rsplit_once('.').map_or("", |(scope, _)| scope);
                scopes.entry(scope.into()).or_default().push(finished.command.to_string());
            }
        }
        let calls = report.log.iter().filter(|call| call.run != report.view.run || counts(&call.command));
        Self {
            order,
            ended: format!("{} with {:?}", report.view.status, report.view.result),
            commands: commands(report).into_iter().filter(|(command, _)| counts(command)).collect(),
            scopes,
            calls: calls.map(|call| format!("{} of {:?}", call.key, call.args)).collect(),
        }
    }

    /// The first thing that is different in `other`.
    fn difference(&self, other: &Self) -> Option<String> {
        if self.ended != other.ended {
            return Some(format!("the run is {}, in the other order {}", self.ended, other.ended));
        }
        let ids = |seen: &Self| seen.commands.keys().cloned().collect::<BTreeSet<_>>();
        if let Some(command) = ids(self).symmetric_difference(&ids(other)).next() {
            return Some(format!("command `{command}` is there in one order only"));
        }
        let changed = self.commands.iter().find(|(command, said)| other.commands.get(*command) != Some(said));
        if let Some((command, said)) = changed {
            let otherwise = other.commands.get(command).map_or("missing", String::as_str);
            return Some(format!("`{command}` is {said}, in the other order {otherwise}"));
        }
        if let Some(call) = self.calls.symmetric_difference(&other.calls).next() {
            return Some(format!("body call {call} happens in one order only"));
        }
        let scope = self.scopes.iter().find(|(scope, ended)| other.scopes.get(*scope) != Some(ended));
        scope.map(|(scope, ended)| format!("the effects of scope `{scope}` are {ended:?} in one order only"))
    }
}

/// Whether a command belongs to a branch that lost one of `races`: a replay does not ask for it.
pub(super) fn is_lost(races: &[(String, String)], command: &CommandId) -> bool {
    races.iter().any(|(race, winner)| command.is_within(race) && !command.is_within(winner))
}

/// Place and winning scope of each race.
pub(super) fn races(events: &[Event]) -> Vec<(String, String)> {
    let decided = events.iter().filter_map(|event| match event {
        Event::RaceDecided(decided) => Some((decided.command.place().to_owned(), decided.winner.clone())),
        _ => None,
    });
    decided.collect()
}

/// One run in one order.
struct Tried<W: Workflow> {
    order: Order,
    report: SimReport<W>,
    most_at_once: usize,
}

fn try_order<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    plan: Vec<usize>,
    draws: Option<Entropy>,
    test: &str,
) -> Result<Tried<W>, SimError> {
    let orders = Arc::new(Orders::new(plan, draws));
    let settings = Settings { orders: Some(Arc::clone(&orders)), ..settings.clone() };
    let run = simulate::<W>(&settings, input)?;
    let state = orders.state();
    let order = Order { choices: state.choices.clone(), names: state.names.clone() };
    let most_at_once = state.most_at_once;
    drop(state);
    let reproduce = format!("{ONLY}={} cargo test {test}", order.id());
    let broken = undisturbed(&run).err();
    match broken {
        None => Ok(Tried { order, report: run.report, most_at_once }),
        Some(broken) => Err(SimError::Order {
            broken,
            one: order.names.join(", "),
            other: order.names.join(", "),
            reproduce,
            journal: run.report.journal(),
        }),
    }
}

/// Tries orders and compares them.
struct Search {
    seen: BTreeMap<Vec<(String, String)>, Seen>,
    tried: BTreeSet<String>,
    report: OrderReport,
    test: String,
}

impl Search {
    fn take<W: Workflow>(&mut self, tried: Tried<W>) -> Result<Order, SimError> {
        let Tried { order, report, most_at_once } = tried;
        self.tried.insert(order.id());
        self.report.orders = self.tried.len();
        self.report.most_at_once = self.report.most_at_once.max(most_at_once);
        let seen = Seen::of(order.clone(), &report);
        let first =
            self.seen.entry(races(&report.events)).or_insert_with(|| Seen::of(order.clone(), &report));
        let difference = first.difference(&seen);
        let one = first.order.names.join(", ");
        self.report.outcomes = self.seen.len();
        match difference {
            None => Ok(order),
            Some(broken) => Err(SimError::Order {
                broken,
                one,
                other: order.names.join(", "),
                reproduce: format!("{ONLY}={} cargo test {}", order.id(), self.test),
                journal: report.journal(),
            }),
        }
    }
}

/// Tries every order, at most `limit` of them; then, if these were not all, draws as many again.
fn in_every_order<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    limit: usize,
    test: String,
) -> Result<OrderReport, SimError> {
    let draws = settings.draws.clone().unwrap_or_default();
    let settings = Settings { crashes: Vec::new(), draws: Some(draws), ..settings.clone() };
    let (seen, tried, report) = (BTreeMap::new(), BTreeSet::new(), OrderReport::default());
    let mut search = Search { seen, tried, report, test };
    let mut order = search.take(try_order::<W>(&settings, input, Vec::new(), None, &search.test)?)?;
    if let Some(plan) = only()? {
        let tried = try_order::<W>(&settings, input, plan, None, &search.test)?;
        println!("{ONLY}={}: {}\n{}", tried.order.id(), tried.order.names.join(", "), tried.report.journal());
        search.take(tried)?;
        return Ok(search.report);
    }
    while let Some(plan) = order.next() {
        if search.tried.len() >= limit.max(1) {
            draw_orders::<W>(&mut search, &settings, input, limit)?;
            return Ok(search.report);
        }
        order = search.take(try_order::<W>(&settings, input, plan, None, &search.test)?)?;
    }
    search.report.exhaustive = true;
    Ok(search.report)
}

fn draw_orders<W: Workflow>(
    search: &mut Search,
    settings: &Settings,
    input: &Payload,
    limit: usize,
) -> Result<(), SimError> {
    for seed in (settings.seed..).take(limit) {
        search.report.seeds.push(seed);
        let draws = Some(Entropy::new(seed));
        search.take(try_order::<W>(settings, input, Vec::new(), draws, &search.test)?)?;
    }
    Ok(())
}

/// The order that the environment names.
fn only() -> Result<Option<Vec<usize>>, SimError> {
    let Some(named) = std::env::var_os(ONLY) else { return Ok(None) };
    let named = named.to_string_lossy();
    let choices: Result<Vec<usize>, _> =
        named.split('.').filter(|choice| !choice.is_empty()).map(str::parse).collect();
    choices.map(Some).map_err(|_| SimError::Environment {
        variable: ONLY.into(),
        problem: format!("`{named}` is no order: write numbers with dots between them, such as 0.2.1"),
    })
}

impl<W: Workflow> Sim<W> {
    /// Runs the workflow in every order in which the bodies of concurrent branches (of `join`, `race` and `each`, and of
    /// child runs) can come back: depth first, and in at most `limit` orders; where there are more, in `limit` drawn ones
    /// besides, whose seeds are in the report.
    ///
    /// In each order the run must have the same commands with the same arguments and values, the same calls of bodies,
    /// the same effects in each branch, and the same result; and its journal must replay. Where a race is won by
    /// another branch all this may differ: then orders are compared with those that have the same winners.
    ///
    /// Bodies that come back at one virtual time are put into every order. One that takes virtual time itself comes back
    /// when that is over; so do timers. Pure steps are not held.
    ///
    /// With the environment variable `AETHER_ORDER=<choices>`, only this order is tried, and its journal is shown.
    ///
    /// # Panics
    /// When two orders differ; tells how to reproduce it.
    #[track_caller]
    pub fn every_interleaving(&self, limit: usize, input: W::Input) -> Running<OrderReport> {
        Running::new(self.in_orders(limit, input))
    }

    /// Like [`Sim::every_interleaving`].
    ///
    /// # Errors
    /// [`SimError::Order`] when two orders differ; any other when a run fails.
    pub async fn try_every_interleaving(
        &self,
        limit: usize,
        input: W::Input,
    ) -> Result<OrderReport, SimError> {
        self.in_orders(limit, input).await
    }

    fn in_orders(&self, limit: usize, input: W::Input) -> BoxFuture<'static, Result<OrderReport, SimError>> {
        let test = test_name();
        self.apart(input, move |settings, input| in_every_order::<W>(settings, input, limit, test))
    }
}
