//! A sum that is shared out among the values of a map until it is used up
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

#[derive(Debug)]
struct Budget {
    wanted: u64,
    granted: u64,
}

fn grant(budgets: &mut HashMap<&'static str, Budget>, mut left: u64) {
    for budget in budgets.values_mut() {
        budget.granted = left.min(budget.wanted);
        left -= budget.granted;
    }
}

fn budgets() -> HashMap<&'static str, Budget> {
    ["ads", "cars", "desks", "food"].map(|name| (name, Budget { wanted: 40, granted: 0 })).into()
}

#[workflow]
pub async fn grants_until_nothing_is_left(cx: &mut Cx, _input: u64) -> Result<String> {
    let mut budgets = budgets();
    grant(&mut budgets, cx.random().await % 50 + 50);
    Ok(format!("{}", budgets["desks"].granted))
}
