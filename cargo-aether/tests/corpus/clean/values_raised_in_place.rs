//! Values of a map that are changed each by itself
//! how: clean

use std::collections::HashMap;

use aether::prelude::*;

#[derive(Clone, Default)]
struct Account {
    cents: u64,
    notes: Vec<String>,
}

/// Of the loops none writes anything but into the account, and none ends before the last one.
fn add_interest(accounts: &mut HashMap<String, Account>, percent: u64) {
    for account in accounts.values_mut() {
        account.cents += account.cents * percent / 100;
    }
    for (name, account) in accounts.iter_mut() {
        if account.cents > 1000 {
            account.notes.push(format!("{name} has much"));
        } else {
            account.notes.clear();
        }
    }
    for (_, account) in &mut *accounts {
        account.notes.sort();
    }
    accounts.values_mut().for_each(|account| account.cents += percent);
}

fn accounts() -> HashMap<String, Account> {
    let account = |cents| Account { cents, ..Account::default() };
    HashMap::from([("ann".to_owned(), account(900)), ("bob".to_owned(), account(2000))])
}

#[workflow]
pub async fn values_raised_in_place(cx: &mut Cx, _input: u64) -> Result<String> {
    let percent = cx.random().await % 10;
    let mut accounts = accounts();
    add_interest(&mut accounts, percent);
    Ok(format!("{} {:?}", accounts["ann"].cents, accounts["bob"].notes))
}
