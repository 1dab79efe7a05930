//! Interest, instalments, and days on which banks work.

use std::collections::BTreeSet;

use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday};
use loans_types::{Application, Instalment, Money, MoneyError, Purpose};
use rust_decimal::Decimal;

#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Money(#[from] MoneyError),
    #[error("a plan of {0} months")]
    Months(u32),
    #[error("beyond the calendar: {0}")]
    Calendar(#[from] jiff::Error),
}

/// Days of a year on which banks are closed.
#[derive(Clone, Debug, Default)]
pub struct Holidays(BTreeSet<(i8, i8)>);

impl Holidays {
    pub fn usual() -> Self {
        Self([(1, 1), (5, 1), (12, 25), (12, 26)].into())
    }

    fn is_open(&self, day: Date) -> bool {
        !matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
            && !self.0.contains(&(day.month(), day.day()))
    }

    pub fn open_day_from(&self, day: Date) -> Result<Date, PlanError> {
        let mut day = day;
        while !self.is_open(day) {
            day = day.tomorrow()?;
        }
        Ok(day)
    }
}

pub fn yearly_percent(purpose: Purpose, points: i32) -> Decimal {
    let base = match purpose {
        Purpose::Home => Decimal::new(350, 2),
        Purpose::Education => Decimal::new(290, 2),
        Purpose::Car => Decimal::new(490, 2),
        Purpose::Other => Decimal::new(790, 2),
    };
    let surcharge = Decimal::from((100 - points).clamp(0, 100)) / Decimal::from(50);
    (base + surcharge).round_dp(2)
}

pub fn plan(application: &Application, percent: Decimal, start: Date) -> Result<Vec<Instalment>, PlanError> {
    let months = application.months;
    if !(3..=480).contains(&months) {
        return Err(PlanError::Months(months));
    }
    let monthly = percent / Decimal::from(1_200);
    let currency = application.amount.currency;
    let part = Money::new(application.amount.amount() / Decimal::from(months), currency);
    let holidays = Holidays::usual();
    let mut rest = application.amount;
    (1..=months)
        .map(|number| {
            let interest = rest.times(monthly)?;
            let repayment = if number == months { rest } else { part };
            rest = rest.minus(repayment)?;
            let due = holidays.open_day_from(start.checked_add(i64::from(number).months())?)?;
            Ok(Instalment { number, due, interest, repayment })
        })
        .collect()
}
