//! A pure step computes the totals of an invoice by rates of tax
//! how: clean

use std::collections::BTreeMap;
use std::ops::AddAssign;

use aether::prelude::*;
use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Position {
    text: String,
    quantity: Decimal,
    unit: Decimal,
    tax_percent: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sum {
    net: Decimal,
    tax: Decimal,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.net += other.net;
        self.tax += other.tax;
    }
}

fn cents(amount: Decimal) -> Decimal {
    amount.round_dp_with_strategy(2, RoundingStrategy::MidpointNearestEven)
}

#[step(effect = "pure")]
pub async fn invoice_totals_by_rate(positions: &[Position]) -> Result<BTreeMap<u8, Sum>> {
    let mut sums: BTreeMap<u8, Sum> = BTreeMap::new();
    for position in positions {
        let net = cents(position.quantity * position.unit);
        let tax = cents(net * Decimal::new(i64::from(position.tax_percent), 2));
        *sums.entry(position.tax_percent).or_default() += Sum { net, tax };
    }
    Ok(sums)
}

#[step(effect = "tool", irreversible)]
pub async fn invoice_totals_number(cx: &mut StepCx, customer: &str) -> Result<u64> {
    Ok(customer.len() as u64)
}

#[workflow]
pub async fn invoice_totals(cx: &mut Cx, customer: String, positions: Vec<Position>) -> Result<String> {
    let sums = invoice_totals_by_rate(cx, &positions).await?;
    let mut whole = Sum::default();
    let mut text = format!("Invoice {} for {customer}\n", invoice_totals_number(cx, &customer).await?);
    for (rate, sum) in &sums {
        text.push_str(&format!("{rate:>3} %: {:>12} + {:>10}\n", sum.net, sum.tax));
        whole += *sum;
    }
    text.push_str(&format!("to pay: {:.2}", whole.net + whole.tax));
    Ok(text)
}
