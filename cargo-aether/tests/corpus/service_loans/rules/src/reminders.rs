//! How a loan that is late is reminded of.

use jiff::civil::Date;
use loans_types::{Currency, Loan, LoanStatus, Money, MoneyError};
use rust_decimal::Decimal;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Friendly,
    Firm,
    Last,
}

impl Level {
    pub fn after(days: i32) -> Option<Self> {
        match days {
            ..=6 => None,
            7..=20 => Some(Self::Friendly),
            21..=44 => Some(Self::Firm),
            _ => Some(Self::Last),
        }
    }

    pub fn fee(self, currency: Currency) -> Money {
        let cents = match self {
            Self::Friendly => 0,
            Self::Firm => 500,
            Self::Last => 1500,
        };
        Money::new(Decimal::new(cents, 2), currency)
    }
}

/// How the loan stands on a day: late since the first instalment that is not covered.
pub fn status(loan: &Loan, today: Date) -> Result<LoanStatus, MoneyError> {
    let received = loan.received()?;
    for instalment in &loan.plan {
        let missing = loan.owed_on(instalment.due)?.minus(received)?;
        if missing.is_positive() {
            let days = (today - instalment.due).get_days();
            return Ok(if days > 0 { LoanStatus::Late { days } } else { LoanStatus::Open });
        }
    }
    Ok(LoanStatus::Repaid)
}

pub fn letter(level: Level, loan: &Loan, missing: Money) -> String {
    let greeting = match level {
        Level::Friendly => "Perhaps it slipped your mind",
        Level::Firm => "We ask you again",
        Level::Last => "For the last time",
    };
    format!("{greeting}: {missing} of your loan {} are due.", loan.application)
}
