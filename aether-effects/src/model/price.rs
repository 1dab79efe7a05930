//! What answers of models cost, by a table of prices that the program brings.
//!
//! Promise: amounts are integers, rounded up and never wrapped; a model that is not in the table has no cost, and none is
//! guessed.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::usage::Usage;

/// What tokens of one model cost, in millionths of the currency's unit for a million tokens: 2 500 000 is 2.50 a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// A million tokens of questions.
    pub input: u64,
    /// A million tokens of questions that the provider took from its cache.
    pub cached_input: u64,
    /// A million tokens of answers, reasoning included.
    pub output: u64,
}

impl Price {
    /// The same price for input from the cache as for other input.
    pub fn per_million(input: u64, output: u64) -> Self {
        Self { input, cached_input: input, output }
    }

    /// Another price for input that the provider took from its cache.
    #[must_use]
    pub fn cached(mut self, input: u64) -> Self {
        self.cached_input = input;
        self
    }

    /// What `usage` costs, in billionths of the currency's unit, rounded up.
    pub fn nanos(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let amount = [
            (usage.input_tokens - cached, self.input),
            (cached, self.cached_input),
            (usage.output_tokens, self.output),
        ];
        let millionths = amount.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price));
        // Tokens times millionths for a million tokens are 10^-12 units.
        let sum = millionths.fold(0_u128, u128::saturating_add);
        u64::try_from(sum.div_ceil(1_000)).unwrap_or(u64::MAX)
    }
}

/// What an answer cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The amount, in billionths of the currency's unit.
    pub nanos: u64,
    /// The currency, as the table of prices names it.
    pub currency: String,
    /// The day whose prices these are.
    pub prices_of: Date,
}

/// Prices of models on one day. Aether brings none: prices change, and a table that is out of date looks like one that is
/// right. Give yours to [`Models::prices`](super::client::Models::prices).
///
/// ```
/// use aether_effects::llm::{Price, PriceTable, Usage};
/// use jiff::civil::date;
/// // 1.00 for a million tokens of questions, 0.50 from the cache, 4.00 for a million tokens of answers.
/// let prices = PriceTable::new("EUR", date(2026, 11, 1))
///     .model("house-model", Price::per_million(1_000_000, 4_000_000).cached(500_000));
/// let usage = Usage { cached_tokens: 600, ..Usage::of(1_000, 200) };
/// let cost = prices.cost("house-model-2026-10-02", &usage).unwrap();
/// assert_eq!((cost.nanos, &*cost.currency), (1_500_000, "EUR")); // 0.0015
/// assert_eq!(prices.cost("other-model", &usage), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceTable {
    currency: String,
    as_of: Date,
    models: BTreeMap<String, Price>,
}

impl PriceTable {
    /// No prices yet. `currency` is what all of them are in, `as_of` the day on which they were looked up.
    pub fn new(currency: impl Into<String>, as_of: Date) -> Self {
        Self { currency: currency.into(), as_of, models: BTreeMap::new() }
    }

    /// The price of `model`, in place of the one that is there. It counts for the model's dated versions, too: a price of
    /// `small` is one of `small-2026-10-02` and of `small@20261002`, unless those have their own. It is none of `small-2`.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>, price: Price) -> Self {
        self.models.insert(model.into(), price);
        self
    }

    /// The price of `model`.
    pub fn price(&self, model: &str) -> Option<&Price> {
        let dated = |known: &&String| {
            let rest = model.strip_prefix(known.as_str()).and_then(|rest| rest.strip_prefix(['-', '@']));
            rest.is_some_and(is_date)
        };
        self.models.get(model).or_else(|| {
            let known = self.models.keys().filter(dated).max_by_key(|known| known.len())?;
            self.models.get(known)
        })
    }

    /// The currency of all prices.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// The highest price of each kind in the table.
    pub(crate) fn highest(&self) -> Option<Price> {
        self.models.values().copied().reduce(|one, other| Price {
            input: one.input.max(other.input),
            cached_input: one.cached_input.max(other.cached_input),
            output: one.output.max(other.output),
        })
    }

    /// What an answer of `model` costs; `None` where the table does not have the model.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<Cost> {
        let nanos = self.price(model)?.nanos(usage);
        Some(Cost { nanos, currency: self.currency.clone(), prices_of: self.as_of })
    }
}

/// Whether `text` is a date as providers put them behind names of models: `2026-10-02`, `20261002`, `1002`.
fn is_date(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    matches!(digits, 4 | 6 | 8) && text.chars().all(|c| c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dated_version_has_the_price_of_its_model_and_another_model_does_not() {
        let table = PriceTable::new("USD", jiff::civil::date(2026, 1, 1))
            .model("small", Price::per_million(1, 2))
            .model("small-mini", Price::per_million(3, 4))
            .model("small-2026-05-05", Price::per_million(5, 6));
        let input = |model: &str| table.price(model).map(|price| price.input);
        assert_eq!([input("small"), input("small-2026-01-01"), input("small@20260101")], [Some(1); 3]);
        assert_eq!([input("small-mini"), input("small-mini-0613")], [Some(3); 2]);
        assert_eq!(input("small-2026-05-05"), Some(5));
        for other in ["small-2", "small-4-5", "smaller", "small-", "small-2026-x", "sma", ""] {
            assert_eq!(input(other), None, "{other}");
        }
    }

    #[test]
    fn costs_are_rounded_up_and_do_not_overflow() {
        let price = Price::per_million(1, 1_000_000);
        assert_eq!(price.nanos(&Usage::of(1, 0)), 1, "a fraction counts as a whole");
        assert_eq!(price.nanos(&Usage::of(0, 7)), 7_000);
        let huge = Price::per_million(u64::MAX, u64::MAX);
        assert_eq!(huge.nanos(&Usage::of(u64::MAX, u64::MAX)), u64::MAX);
        let wrong = Usage { cached_tokens: 9, ..Usage::of(3, 0) };
        assert_eq!(Price::per_million(1_000, 0).cached(0).nanos(&wrong), 0, "more from the cache than asked");
    }
}
