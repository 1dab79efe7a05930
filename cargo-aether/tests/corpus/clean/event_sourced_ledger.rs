//! A state that is built again from its events
//! how: clean

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use aether::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Opened { owner: String },
    Paid { owner: String, cents: i64 },
    Undone,
}

#[derive(Clone, Debug, Default)]
struct Ledger {
    balances: BTreeMap<String, i64>,
    history: Vec<BTreeMap<String, i64>>,
}

impl Ledger {
    fn apply(mut self, event: &Event) -> ControlFlow<String, Self> {
        if let Event::Undone = event {
            match self.history.pop() {
                Some(before) => self.balances = before,
                None => return ControlFlow::Break("nothing to undo".to_owned()),
            }
            return ControlFlow::Continue(self);
        }
        self.history.push(self.balances.clone());
        match event {
            Event::Opened { owner } => {
                self.balances.entry(owner.clone()).or_default();
            }
            Event::Paid { owner, cents } => match self.balances.get_mut(owner) {
                Some(balance) => *balance += cents,
                None => return ControlFlow::Break(format!("{owner} has no account")),
            },
            Event::Undone => {}
        }
        ControlFlow::Continue(self)
    }
}

fn replayed(events: &[Event]) -> String {
    match events.iter().try_fold(Ledger::default(), Ledger::apply) {
        ControlFlow::Continue(ledger) => format!("{:?}", ledger.balances),
        ControlFlow::Break(reason) => reason,
    }
}

#[workflow]
pub async fn event_sourced_ledger(cx: &mut Cx, _input: u64) -> Result<String> {
    let cents = (cx.random().await % 5000) as i64;
    let paid = |owner: &str, cents| Event::Paid { owner: owner.to_owned(), cents };
    let events = [Event::Opened { owner: "bo".into() }, paid("bo", cents), paid("bo", -7), Event::Undone];
    let broken = [events.as_slice(), &[paid("al", 1)]].concat();
    Ok(format!("{} {}", replayed(&events), replayed(&broken)))
}
