//! Amounts of several currencies are converted by rates of one day
//! how: clean

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency([u8; 3]);

#[derive(Clone, Debug, thiserror::Error)]
pub enum CurrencyError {
    #[error("`{0}` is no currency")]
    Malformed(String),
    #[error("there is no rate for {0}")]
    NoRate(Currency),
}

impl FromStr for Currency {
    type Err = CurrencyError;

    fn from_str(text: &str) -> std::result::Result<Self, CurrencyError> {
        match text.as_bytes() {
            [a, b, c] if text.chars().all(|c| c.is_ascii_uppercase()) => Ok(Self([*a, *b, *c])),
            _ => Err(CurrencyError::Malformed(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Currency {
    type Error = CurrencyError;

    fn try_from(text: String) -> std::result::Result<Self, CurrencyError> {
        text.parse()
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.to_string()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

fn converted(
    amount: Decimal,
    from: Currency,
    rates: &BTreeMap<Currency, Decimal>,
) -> std::result::Result<Decimal, CurrencyError> {
    let rate = rates.get(&from).filter(|rate| !rate.is_zero()).ok_or(CurrencyError::NoRate(from))?;
    Ok((amount / rate).round_dp(2))
}

#[step(effect = "read")]
pub async fn currency_conversion_rates(
    _cx: &mut StepCx,
    base: Currency,
) -> Result<BTreeMap<Currency, Decimal>> {
    Ok(BTreeMap::from([(base, Decimal::ONE)]))
}

#[workflow]
pub async fn currency_conversion(
    cx: &mut Cx,
    base: Currency,
    amounts: Vec<(Currency, Decimal)>,
) -> Result<Decimal> {
    let rates = currency_conversion_rates(cx, base).await?;
    let mut sum = Decimal::ZERO;
    for (currency, amount) in amounts {
        match converted(amount, currency, &rates) {
            Ok(value) => sum += value,
            Err(error @ CurrencyError::NoRate(_)) => tracing::warn!(%error, %amount, "left out"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sum)
}
