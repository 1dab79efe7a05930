//! Closures over a hash map that read what they capture, and one that hands out numbers in the order of a list
//! how: clean

use std::collections::{BTreeMap, HashMap, HashSet};

use aether::prelude::*;

struct Rates {
    of: HashMap<u64, u64>,
    least: u64,
}

impl Rates {
    fn rate(&self, of: u64) -> u64 {
        self.of.get(&of).copied().unwrap_or(self.least)
    }
}

fn rated(prices: &HashMap<u64, u64>, rates: &Rates, wanted: &HashSet<u64>) -> BTreeMap<u64, u64> {
    let is_wanted = |of: &u64| wanted.contains(of);
    prices.iter().filter(|(id, _)| is_wanted(id)).map(|(id, price)| (*id, price * rates.rate(*id))).collect()
}

fn numbered(names: &[&'static str]) -> Vec<u64> {
    let (mut numbers, mut next) = (HashMap::new(), 0);
    let mut number = |name| {
        *numbers.entry(name).or_insert_with(|| {
            next += 1;
            next
        })
    };
    let all: Vec<u64> = names.iter().map(|name| number(*name)).collect();
    let mut known: Vec<&&str> = numbers.keys().collect();
    known.sort();
    all.into_iter().chain([known.len() as u64]).collect()
}

fn raised(mut prices: HashMap<u64, u64>, rates: &Rates) -> u64 {
    for (id, price) in &mut prices {
        *price += rates.rate(*id);
    }
    prices.values().sum()
}

fn told(count: u64) -> String {
    let prices: HashMap<u64, u64> = (0..count).map(|n| (n, n * n)).collect();
    let rates = Rates { of: HashMap::from([(3, 7)]), least: 1 };
    let rated = rated(&prices, &rates, &HashSet::from([1, 2, 3]));
    format!("{rated:?} {:?} {}", numbered(&["a", "b", "a"]), raised(prices, &rates))
}

#[workflow]
pub async fn closures_that_only_read(cx: &mut Cx, _input: u64) -> Result<String> {
    let count = cx.random().await % 5 + 5;
    Ok(told(count))
}
