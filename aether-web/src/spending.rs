//! What runs have spent on models: read from their journals, and kept while they do not change.
//!
//! Promise: an amount is that of the recorded answers, by the prices that were recorded with them or else by those of the
//! console; a model without a price counts its tokens and no money. A call counts in the run that made it: what a fork has
//! copied of its origin is not counted again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use aether_core::engine::Engine;
use aether_core::id::{Position, RunId};
use aether_core::journal::event::Event;
use aether_core::outcome::EffectClass;
use aether_core::store::{RunRecord, StoreError};
use aether_effects::llm::{ChatResponse, PriceTable, Usage};
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Most runs whose spending is kept.
const KEPT: usize = 10_000;

/// What some calls took together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) calls: u64,
    pub(crate) usage: Usage,
    /// Billionths, by currency.
    pub(crate) money: BTreeMap<String, u128>,
    /// Calls that have no price.
    pub(crate) unpriced: u64,
    /// Of which dates the prices are.
    pub(crate) prices_of: BTreeSet<Date>,
}

impl Sum {
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.usage += other.usage;
        self.unpriced += other.unpriced;
        self.prices_of.extend(&other.prices_of);
        for (currency, nanos) in &other.money {
            let sum = self.money.entry(currency.clone()).or_default();
            *sum = sum.saturating_add(*nanos);
        }
    }
}

/// What one run took, by model and day.
pub(crate) type OfRun = BTreeMap<(String, Date), Sum>;

/// The spending of runs, each as of a position of its journal.
#[derive(Debug, Default)]
pub(crate) struct Spendings {
    known: Mutex<HashMap<RunId, (Position, Arc<OfRun>)>>,
}

impl Spendings {
    /// What `run` took.
    pub(crate) async fn of(
        &self,
        engine: &Engine,
        prices: Option<&PriceTable>,
        run: &RunRecord,
    ) -> Result<Arc<OfRun>, StoreError> {
        let known = self.lock().get(&run.id).filter(|(position, _)| *position == run.next).cloned();
        if let Some((_, spent)) = known {
            return Ok(spent);
        }
        let spent = Arc::new(read(engine, prices, &run.id).await?);
        let mut known = self.lock();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(run.id.clone(), (run.next, Arc::clone(&spent)));
        Ok(spent)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, (Position, Arc<OfRun>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many events a run has copied of another one: a fork begins with them in one frame.
async fn copied(engine: &Engine, run: &RunId) -> Result<Position, StoreError> {
    let store = &**engine.store();
    let frames = store.load_page(run, 0, 1).await?;
    let Some(first) = frames.into_iter().next() else { return Ok(0) };
    let began = first.position;
    let events = aether_core::store::read::events(store, run, &[first]).await?;
    let is_fork = events.iter().any(|event| match event {
        Event::RunCreated(created) => created.forked_from.is_some(),
        _ => false,
    });
    Ok(if is_fork { began + events.len() as Position } else { 0 })
}

async fn read(engine: &Engine, prices: Option<&PriceTable>, run: &RunId) -> Result<OfRun, StoreError> {
    let view = engine.view(run).await?;
    let mut spent = OfRun::new();
    let began = copied(engine, run).await?;
    let calls = view.effects.iter().filter(|effect| effect.class == EffectClass::Llm);
    let calls = calls.filter(|effect| effect.position >= began);
    // The newest of each command is the one that stays.
    let ended: HashMap<_, _> =
        view.executions.iter().map(|own| (&own.command, own.lifecycle.updated_at)).collect();
    for call in calls {
        let Some(answer) = call.output.as_ref().ok().and_then(|value| value.decode::<ChatResponse>().ok())
        else {
            continue;
        };
        let at = ended.get(&call.command).copied().unwrap_or(view.lifecycle.updated_at);
        let day = at.to_zoned(TimeZone::UTC).date();
        let cost = answer.cost.clone().or_else(|| prices?.cost(&answer.model, &answer.usage));
        let mut sum = Sum { calls: 1, usage: answer.usage, ..Sum::default() };
        match cost {
            Some(cost) => {
                sum.money.insert(cost.currency, cost.nanos.into());
                sum.prices_of.insert(cost.prices_of);
            }
            None => sum.unpriced = 1,
        }
        spent.entry((answer.model, day)).or_default().add(&sum);
    }
    Ok(spent)
}
