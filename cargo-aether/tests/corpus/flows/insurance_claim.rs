//! Rules as boxed closures and trait objects decide what is paid of a claim
//! how: clean

use std::time::Duration;

use aether::jiff::{civil::Date, tz::TimeZone};
use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Damage {
    Water { rooms: u8 },
    Fire,
    Theft { reported: bool, value: Decimal },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    policy: String,
    damage: Damage,
    happened: Date,
    asked: Decimal,
}

struct Rule {
    name: &'static str,
    applies: Box<dyn Fn(&Claim, Date) -> bool + Send + Sync>,
    share: Decimal,
}

fn rule(
    name: &'static str,
    percent: i64,
    applies: impl Fn(&Claim, Date) -> bool + Send + Sync + 'static,
) -> Rule {
    Rule { name, applies: Box::new(applies), share: Decimal::new(percent, 2) }
}

fn rules(late_days: i32) -> Vec<Rule> {
    vec![
        rule("late", 50, move |claim, today| (today - claim.happened).get_days() > late_days),
        rule("not reported", 0, |claim, _| matches!(claim.damage, Damage::Theft { reported: false, .. })),
        rule("many rooms", 80, |claim, _| matches!(claim.damage, Damage::Water { rooms } if rooms > 3)),
    ]
}

fn payable(claim: &Claim, today: Date) -> (Decimal, Vec<&'static str>) {
    let value = match &claim.damage {
        Damage::Theft { value, .. } => claim.asked.min(*value),
        Damage::Fire | Damage::Water { .. } => claim.asked,
    };
    rules(30).iter().filter(|rule| (rule.applies)(claim, today)).fold(
        (value, Vec::new()),
        |(sum, mut why), rule| {
            why.push(rule.name);
            ((sum * rule.share).round_dp(2), why)
        },
    )
}

#[step(effect = "tool", irreversible, key = |policy, happened| format!("{policy}/{happened}"))]
pub async fn insurance_claim_pay(
    _cx: &mut StepCx,
    policy: &str,
    happened: Date,
    amount: Decimal,
) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn insurance_claim(cx: &mut Cx, claim: Claim) -> Result<String> {
    let today = cx.now().await.to_zoned(TimeZone::UTC).date();
    let (amount, why) = payable(&claim, today);
    if amount.is_zero() {
        return Ok(format!("nothing is paid: {}", why.join(", ")));
    }
    if !why.is_empty() || amount > Decimal::from(5_000) {
        let approval =
            cx.approval("claim").details(&(&claim, amount)).expires(Duration::from_secs(14 * 24 * 3600));
        approval.await?.granted()?;
    }
    insurance_claim_pay(cx, &claim.policy, claim.happened, amount).await?;
    Ok(format!("{amount} is paid"))
}
