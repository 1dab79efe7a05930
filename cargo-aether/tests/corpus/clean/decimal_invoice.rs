//! Sums of money with decimals
//! how: clean

use aether::prelude::*;
use rust_decimal::{Decimal, RoundingStrategy};

struct Line {
    price: Decimal,
    count: u32,
    rate: Decimal,
}

fn half_up(value: Decimal) -> Decimal {
    value.round_dp_with_strategy(2, RoundingStrategy::MidpointAwayFromZero)
}

fn split(total: Decimal, ways: u32) -> Vec<Decimal> {
    let share = (total / Decimal::from(ways)).round_dp_with_strategy(2, RoundingStrategy::ToZero);
    let mut shares = vec![share; ways as usize];
    let rest = total - share * Decimal::from(ways);
    if let Some(first) = shares.first_mut() {
        *first += rest;
    }
    shares
}

fn invoice(lines: &[Line]) -> String {
    let net: Decimal = lines.iter().map(|line| line.price * Decimal::from(line.count)).sum();
    let tax: Decimal =
        lines.iter().map(|line| half_up(line.price * Decimal::from(line.count) * line.rate)).sum();
    let total = (net + tax).normalize();
    format!("{net} + {tax} = {total:.2}, {:?}", split(half_up(total), 3))
}

#[workflow]
pub async fn decimal_invoice(cx: &mut Cx, _input: u64) -> Result<String> {
    let cents = cx.random().await % 100_000;
    let lines = [
        Line { price: Decimal::new(cents as i64, 2), count: 3, rate: Decimal::new(19, 2) },
        Line { price: "0.335".parse()?, count: 7, rate: Decimal::new(7, 2) },
    ];
    Ok(invoice(&lines))
}
