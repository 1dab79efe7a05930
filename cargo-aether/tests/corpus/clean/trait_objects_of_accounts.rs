//! Accounts behind a trait object, looked up by name
//! how: clean

use std::collections::HashMap;
use std::fmt::Debug;

use aether::prelude::*;

trait Account: Debug {
    fn balance(&self) -> i64;
    fn apply(&mut self, cents: i64) -> std::result::Result<(), String>;

    fn describe(&self) -> String {
        format!("{self:?} holds {}", self.balance())
    }
}

#[derive(Debug, Default)]
struct Cash(i64);

#[derive(Debug)]
struct Credit {
    used: i64,
    limit: i64,
}

impl Account for Cash {
    fn balance(&self) -> i64 {
        self.0
    }

    fn apply(&mut self, cents: i64) -> std::result::Result<(), String> {
        let after = self.0 + cents;
        if after < 0 {
            return Err(format!("{} missing", -after));
        }
        self.0 = after;
        Ok(())
    }
}

impl Account for Credit {
    fn balance(&self) -> i64 {
        self.limit - self.used
    }

    fn apply(&mut self, cents: i64) -> std::result::Result<(), String> {
        self.used -= cents;
        if self.used > self.limit { Err("over the limit".to_owned()) } else { Ok(()) }
    }
}

fn transfer(cents: i64) -> String {
    let mut accounts: HashMap<&str, Box<dyn Account>> = HashMap::new();
    accounts.insert("till", Box::<Cash>::default());
    accounts.insert("card", Box::new(Credit { used: 100, limit: 50_000 }));
    let mut report = Vec::new();
    for (from, to) in [("card", "till"), ("till", "card"), ("till", "card")] {
        let taken = accounts.get_mut(from).map_or(Err("unknown".to_owned()), |account| account.apply(-cents));
        if let (Ok(()), Some(account)) = (&taken, accounts.get_mut(to)) {
            report.push(format!("{:?}", account.apply(cents)));
        } else {
            report.push(format!("{taken:?}"));
        }
    }
    report.extend(
        ["card", "till"].iter().filter_map(|name| accounts.get(name)).map(|account| account.describe()),
    );
    report.join("; ")
}

#[workflow]
pub async fn trait_objects_of_accounts(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(transfer((cx.random().await % 60_000) as i64))
}
