//! The orders in which the bodies of concurrent branches come back, one after another: every one there is, or as many
//! as there is time for.
//!
//! Promise: an order that breaks a guarantee is named by its choices, which give it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aether_core::payload::Payload;
use aether_core::workflow::Workflow;

use super::environment::only_order;
use super::guarantees::undisturbed;
use super::order_outcome::{Order, OrderOutcome};
use super::races::races;
use crate::sim::processes::simulate::simulate;
use crate::sim::report::error::SimError;
use crate::sim::report::sim_report::SimReport;
use crate::sim::scheduler::BodyScheduler;
use crate::sim::settings::Settings;
use crate::sim::world::Entropy;

/// Environment variable with the one order to try.
const ONLY: &str = "AETHER_ORDER";
/// How many orders of concurrent bodies were tried, and what they have in common.
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
    let scheduler = Arc::new(BodyScheduler::new(plan, draws));
    let settings = Settings { scheduler: Some(Arc::clone(&scheduler)), ..settings.clone() };
    let run = simulate::<W>(&settings, input)?;
    let released = scheduler.released();
    let most_at_once = released.most_at_once;
    let order = Order::of(released);
    match undisturbed(&run) {
        Ok(()) => Ok(Tried { order, report: run.report, most_at_once }),
        Err(broken) => Err(failed(broken, &order, &order, test, run.report.journal())),
    }
}

/// What two orders have in different ways, and how to see the second one again.
fn failed(broken: String, one: &Order, other: &Order, test: &str, journal: String) -> SimError {
    let reproduce = format!("{ONLY}={} cargo test {test}", other.id());
    SimError::Order { broken, one: one.names(), other: other.names(), reproduce, journal }
}

/// Tries orders and compares them.
struct Search {
    seen: BTreeMap<Vec<(String, String)>, OrderOutcome>,
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
        let outcome = OrderOutcome::of(order.clone(), &report);
        let winners = races(&report.events);
        let first = self.seen.entry(winners).or_insert_with(|| OrderOutcome::of(order.clone(), &report));
        let difference = first.difference(&outcome);
        let failed = |broken| failed(broken, &first.order, &order, &self.test, report.journal());
        let result = difference.map(failed);
        self.report.outcomes = self.seen.len();
        result.map_or(Ok(order), Err)
    }
}

/// Tries every order, at most `limit` of them; then, if these were not all, draws as many again.
pub(crate) fn in_every_order<W: Workflow>(
    settings: &Settings,
    input: &Payload,
    limit: usize,
    test: String,
) -> Result<OrderReport, SimError> {
    let settings = settings.for_sweep();
    let (seen, tried, report) = (BTreeMap::new(), BTreeSet::new(), OrderReport::default());
    let mut search = Search { seen, tried, report, test };
    let mut order = search.take(try_order::<W>(&settings, input, Vec::new(), None, &search.test)?)?;
    if let Some(plan) = only_order(ONLY)? {
        let tried = try_order::<W>(&settings, input, plan, None, &search.test)?;
        println!("{ONLY}={}: {}\n{}", tried.order.id(), tried.order.names(), tried.report.journal());
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
