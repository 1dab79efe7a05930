//! Amounts of one currency.

use std::fmt;
use std::str::FromStr;

use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

/// A currency that loans are given in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Currency {
    #[default]
    Eur,
    Chf,
    Sek,
}

/// Why amounts do not go together, or a text is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("{0} and {1} cannot be added")]
    Currencies(Currency, Currency),
    #[error("the amount is too large")]
    Overflow,
    #[error("`{0}` is no amount")]
    NoAmount(String),
    #[error("`{0}` is no currency")]
    NoCurrency(String),
}

/// An amount with two decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Money {
    pub currency: Currency,
    amount: Decimal,
}

impl Money {
    pub fn new(amount: Decimal, currency: Currency) -> Self {
        let amount = amount.round_dp_with_strategy(2, RoundingStrategy::MidpointNearestEven);
        Self { currency, amount }
    }

    pub fn zero(currency: Currency) -> Self {
        Self::new(Decimal::ZERO, currency)
    }

    pub const fn amount(self) -> Decimal {
        self.amount
    }

    pub fn is_positive(self) -> bool {
        self.amount > Decimal::ZERO
    }

    pub fn plus(self, other: Self) -> Result<Self, MoneyError> {
        if self.currency != other.currency {
            return Err(MoneyError::Currencies(self.currency, other.currency));
        }
        let sum = self.amount.checked_add(other.amount).ok_or(MoneyError::Overflow)?;
        Ok(Self::new(sum, self.currency))
    }

    pub fn minus(self, other: Self) -> Result<Self, MoneyError> {
        self.plus(Self::new(-other.amount, other.currency))
    }

    pub fn times(self, factor: Decimal) -> Result<Self, MoneyError> {
        let product = self.amount.checked_mul(factor).ok_or(MoneyError::Overflow)?;
        Ok(Self::new(product, self.currency))
    }

    pub fn sum(currency: Currency, all: impl IntoIterator<Item = Self>) -> Result<Self, MoneyError> {
        all.into_iter().try_fold(Self::zero(currency), Self::plus)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eur => "EUR",
            Self::Chf => "CHF",
            Self::Sek => "SEK",
        })
    }
}

impl FromStr for Currency {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        match text.to_ascii_uppercase().as_str() {
            "EUR" => Ok(Self::Eur),
            "CHF" => Ok(Self::Chf),
            "SEK" => Ok(Self::Sek),
            _ => Err(MoneyError::NoCurrency(text.to_owned())),
        }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} {}", self.amount, self.currency)
    }
}

impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let wrong = || MoneyError::NoAmount(text.to_owned());
        let (amount, currency) = text.trim().split_once(' ').ok_or_else(wrong)?;
        let amount: Decimal = amount.replace('_', "").parse().map_err(|_| wrong())?;
        Ok(Self::new(amount, currency.trim().parse()?))
    }
}
