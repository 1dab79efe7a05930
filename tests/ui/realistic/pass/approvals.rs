#![deny(warnings)]
//! Approval chains and other long waits, most of them as associated functions.

use aether::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    Lead,
    Manager,
    Director { region: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Expense {
    pub id: String,
    pub cents: u64,
    pub owner: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    Approved { by: Vec<Role> },
    Refused { by: Role, reason: String },
    Expired,
}

#[step(effect = "tool", key = |role, expense| format!("{role:?}:{}", expense.id))]
async fn notify(cx: &mut StepCx, role: &Role, expense: &Expense) -> Result<()> {
    let _ = (cx, role, expense);
    Ok(())
}

#[step(effect = "read")]
async fn vote(cx: &mut StepCx, role: &Role, id: &str) -> Result<Option<bool>> {
    let _ = (cx, id);
    Ok(Some(*role != Role::Lead))
}

#[step(effect = "external", idempotent, retry(max_retries = 5), timeout = "1m")]
async fn pay_out(cx: &mut StepCx, expense: Expense) -> Result<String> {
    Ok(format!("{}:{}", expense.id, cx.idempotency_key()))
}

/// The approval of expenses.
pub struct Approval;

#[workflow]
impl Approval {
    const PATIENCE: Duration = Duration::from_secs(3 * 24 * 3600);

    fn chain(cents: u64) -> Vec<Role> {
        let mut roles = vec![Role::Lead];
        if cents > 100_000 {
            roles.push(Role::Manager);
        }
        if cents > 1_000_000 {
            roles.push(Role::Director { region: "EU".into() });
        }
        roles
    }

    // 31
    /// Asks one person and waits.
    pub async fn ask(cx: &mut Cx, role: Role, expense: Expense) -> Result<Option<bool>> {
        notify(cx, &role, &expense).await?;
        let deadline = cx.now().await + Self::PATIENCE;
        while cx.now().await < deadline {
            if let Some(answer) = vote(cx, &role, &expense.id).await? {
                return Ok(Some(answer));
            }
            cx.sleep(Duration::from_secs(3600)).await;
        }
        Ok(None)
    }

    // 32
    /// Asks one after the other.
    pub async fn in_turn(cx: &mut Cx, expense: Expense) -> Result<Decision> {
        let mut by = Vec::new();
        for role in Self::chain(expense.cents) {
            match Self::ask(cx, role.clone(), expense.clone()).await? {
                Some(true) => by.push(role),
                Some(false) => return Ok(Decision::Refused { by: role, reason: "no".into() }),
                None => return Ok(Decision::Expired),
            }
        }
        Ok(Decision::Approved { by })
    }

    // 33
    /// Asks all at once.
    pub async fn at_once(cx: &mut Cx, expense: Expense) -> Result<Decision> {
        let roles = Self::chain(expense.cents);
        let answers =
            cx.each(roles.clone(), async |cx: &mut Cx, role| Self::ask(cx, role, expense.clone()).await).await;
        for (role, answer) in roles.iter().zip(answers) {
            match answer? {
                Some(true) => {}
                Some(false) => return Ok(Decision::Refused { by: role.clone(), reason: "no".into() }),
                None => return Ok(Decision::Expired),
            }
        }
        Ok(Decision::Approved { by: roles })
    }

    // 34
    /// Any of two suffices.
    pub async fn either(cx: &mut Cx, expense: Expense) -> Result<bool> {
        let answer = cx
            .race((
                async |cx: &mut Cx| Self::ask(cx, Role::Lead, expense.clone()).await,
                async |cx: &mut Cx| Self::ask(cx, Role::Manager, expense.clone()).await,
            ))
            .await?;
        Ok(answer == Some(true))
    }

    // 35
    /// Approves and pays.
    #[workflow(version = 4, name = "approval.run")]
    pub async fn run(cx: &mut Cx, expense: Expense) -> Result<Option<String>> {
        let decision = if expense.cents < 1_000 {
            Decision::Approved { by: Vec::new() }
        } else {
            Self::in_turn(cx, expense.clone()).await?
        };
        match decision {
            Decision::Approved { .. } => Ok(Some(pay_out(cx, expense).await?)),
            Decision::Refused { .. } | Decision::Expired => Ok(None),
        }
    }
}

/// Reminders and quorums, in a module whose imports are seen.
#[aether::workflow_mod]
pub mod boards {
    use super::{Approval, Decision, Expense, Role, notify, vote};
    use aether::prelude::*;
    use std::collections::BTreeMap as Tally;
    use std::time::Duration as Time;

    // 36
    /// Reminds until there is an answer.
    #[workflow]
    pub async fn remind(cx: &mut Cx, role: Role, expense: Expense, times: u32) -> Result<u32> {
        let mut wait = Time::from_secs(60);
        for reminder in 0..times {
            notify(cx, &role, &expense).await?;
            if vote(cx, &role, &expense.id).await?.is_some() {
                return Ok(reminder);
            }
            cx.sleep(wait).await;
            wait = wait.saturating_mul(2);
        }
        Ok(times)
    }

    // 37
    /// A quorum of the board.
    #[workflow]
    pub async fn quorum(cx: &mut Cx, members: Vec<Role>, id: String, needed: usize) -> Result<bool> {
        let mut tally: Tally<bool, usize> = Tally::new();
        for member in &members {
            let Some(yes) = vote(cx, member, &id).await? else { continue };
            *tally.entry(yes).or_insert(0) += 1;
            if tally.get(&true).is_some_and(|yes| *yes >= needed) {
                break;
            }
        }
        Ok(tally.get(&true).copied().unwrap_or_default() >= needed)
    }

    // 38
    /// Approves with an escalation after too long a wait.
    #[workflow]
    pub async fn escalating(cx: &mut Cx, expense: Expense) -> Result<Decision> {
        let first = cx
            .race((
                async |cx: &mut Cx| Approval::in_turn(cx, expense.clone()).await.map(Some),
                async |cx: &mut Cx| {
                    cx.sleep(Time::from_secs(86_400)).await;
                    Ok(None)
                },
            ))
            .await?;
        match first {
            Some(decision) => Ok(decision),
            None => Approval::at_once(cx, expense).await,
        }
    }
}

// 39
#[workflow]
async fn onboarding(cx: &mut Cx, owner: String, rooms: Vec<String>) -> Result<BTreeSet<String>> {
    let mut granted = BTreeSet::new();
    for (room, role) in rooms.into_iter().zip([Role::Lead, Role::Manager].into_iter().cycle()) {
        let expense = Expense { id: format!("{owner}/{room}"), cents: 0, owner: owner.clone() };
        if Approval::ask(cx, role, expense).await? == Some(true) {
            granted.insert(room);
        }
    }
    Ok(granted)
}

// 40
#[workflow]
async fn audit(cx: &mut Cx, expenses: Vec<Expense>) -> Result<Vec<String>> {
    let picked = cx.random().await as usize % expenses.len().max(1);
    let mut log = vec![format!("picked {picked} at {}", cx.now().await)];
    for (number, expense) in expenses.into_iter().enumerate() {
        let decision = if number == picked {
            cx.child::<Approval_in_turn>(expense.clone()).await?
        } else {
            boards::escalating(cx, expense.clone()).await?
        };
        log.push(format!("{} {} {decision:?}", expense.id, expense.owner));
    }
    Ok(log)
}

fn main() {}
