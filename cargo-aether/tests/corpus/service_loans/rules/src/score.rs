//! Rules that add up to a score.

use std::collections::BTreeMap;

use jiff::civil::Date;
use loans_types::{Applicant, Application, Employment, Money, MoneyError, Purpose};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// A rule of the score. It sees the application and the day, and nothing else.
pub trait Rule: Send + Sync {
    fn name(&self) -> &'static str;
    fn points(&self, application: &Application, today: Date) -> Result<i32, MoneyError>;
}

struct Age;
struct Work;
struct Burden {
    highest_percent: i64,
}

fn whole_years(from: Date, until: Date) -> i32 {
    let years = i32::from(until.year()) - i32::from(from.year());
    let before = (until.month(), until.day()) < (from.month(), from.day());
    if before { years - 1 } else { years }
}

impl Rule for Age {
    fn name(&self) -> &'static str {
        "age"
    }

    fn points(&self, application: &Application, today: Date) -> Result<i32, MoneyError> {
        Ok(match whole_years(application.applicant.born, today) {
            ..=17 => -1_000,
            18..=22 => -10,
            23..=67 => 20,
            _ => 0,
        })
    }
}

impl Rule for Work {
    fn name(&self) -> &'static str {
        "work"
    }

    fn points(&self, application: &Application, today: Date) -> Result<i32, MoneyError> {
        Ok(match &application.applicant.employment {
            Employment::Employed { since, .. } => 10 + whole_years(*since, today).clamp(0, 10) * 3,
            Employment::SelfEmployed { since } if whole_years(*since, today) >= 3 => 20,
            Employment::SelfEmployed { .. } => -10,
            Employment::Retired => 15,
            Employment::None => -40,
        })
    }
}

impl Rule for Burden {
    fn name(&self) -> &'static str {
        "burden"
    }

    fn points(&self, application: &Application, _today: Date) -> Result<i32, MoneyError> {
        let Applicant { income, obligations, .. } = &application.applicant;
        let monthly = application.amount.amount() / Decimal::from(application.months.max(1));
        let monthly = Money::new(monthly, application.amount.currency);
        let all = Money::sum(income.currency, obligations.values().copied().chain([monthly]))?;
        if !income.is_positive() {
            return Ok(-100);
        }
        let percent = all.amount() * Decimal::ONE_HUNDRED / income.amount();
        Ok(if percent > Decimal::from(self.highest_percent) { -60 } else { 30 })
    }
}

/// What the rules say, one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    pub points: BTreeMap<String, i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grade {
    Accept,
    Look,
    Refuse,
}

impl Score {
    pub fn total(&self) -> i32 {
        self.points.values().sum()
    }

    pub fn grade(&self) -> Grade {
        match self.total() {
            50.. => Grade::Accept,
            0..=49 => Grade::Look,
            _ => Grade::Refuse,
        }
    }
}

fn rules_for(purpose: Purpose) -> Vec<Box<dyn Rule>> {
    let highest_percent = if purpose == Purpose::Home { 45 } else { 35 };
    vec![Box::new(Age), Box::new(Work), Box::new(Burden { highest_percent })]
}

pub fn score(application: &Application, today: Date) -> Result<Score, MoneyError> {
    let mut score = Score::default();
    for rule in rules_for(application.purpose) {
        let points = rule.points(application, today)?;
        tracing::debug!(application = %application.id, rule = rule.name(), points, "scored");
        score.points.insert(rule.name().to_owned(), points);
    }
    Ok(score)
}
