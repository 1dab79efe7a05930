//! Rules that the program provides as configuration decide about a discount
//! how: clean

use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Rule {
    Above { amount: Decimal, percent: u8 },
    Code { code: String, percent: u8 },
    Loyal { years: u8, percent: u8 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rules {
    rules: Vec<Rule>,
    most_percent: u8,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cart {
    amount: Decimal,
    code: Option<String>,
    years: u8,
}

impl Rule {
    fn percent_for(&self, cart: &Cart) -> u8 {
        match self {
            Self::Above { amount, percent } if cart.amount >= *amount => *percent,
            Self::Code { code, percent }
                if cart.code.as_deref().is_some_and(|c| c.eq_ignore_ascii_case(code)) =>
            {
                *percent
            }
            Self::Loyal { years, percent } if cart.years >= *years => *percent,
            _ => 0,
        }
    }
}

impl Rules {
    fn percent_for(&self, cart: &Cart) -> u8 {
        let all = self.rules.iter().map(|rule| rule.percent_for(cart));
        all.fold(0u8, u8::saturating_add).min(self.most_percent)
    }
}

#[step(effect = "tool", irreversible, key = |code| code)]
pub async fn configured_discounts_redeem(_cx: &mut StepCx, code: &str) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn configured_discounts(cx: &mut Cx, cart: Cart) -> Result<Decimal> {
    let rules: Rules = cx.config().await?;
    let percent = rules.percent_for(&cart);
    if let Some(code) = &cart.code {
        configured_discounts_redeem(cx, code).await?;
    }
    let factor = Decimal::new(100 - i64::from(percent.min(100)), 2);
    Ok((cart.amount * factor).round_dp(2))
}
