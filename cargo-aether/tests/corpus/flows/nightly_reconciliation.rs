//! The body of a schedule compares the books of the day before with the bank
//! how: clean

use std::collections::BTreeMap;

use aether::jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    reference: String,
    cents: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Reconciled {
    day: Date,
    matched: usize,
    only_books: Vec<Entry>,
    only_bank: Vec<Entry>,
}

#[step(effect = "read")]
pub async fn nightly_reconciliation_books(_cx: &mut StepCx, day: Date) -> Result<Vec<Entry>> {
    Ok(Vec::new())
}

#[step(effect = "read", retry(patience = "2h"))]
pub async fn nightly_reconciliation_bank(_cx: &mut StepCx, day: Date) -> Result<Vec<Entry>> {
    Ok(Vec::new())
}

fn day_before(tick: Timestamp) -> Result<Date> {
    Ok(tick.to_zoned(TimeZone::UTC).date().checked_sub(1.day()).in_context("the day before")?)
}

/// Takes out of both what is in both, whatever the order.
fn matched(books: &mut Vec<Entry>, bank: &mut Vec<Entry>) -> usize {
    let mut open: BTreeMap<(String, i64), usize> = BTreeMap::new();
    for entry in bank.iter() {
        *open.entry((entry.reference.clone(), entry.cents)).or_default() += 1;
    }
    let before = books.len();
    books.retain(|entry| match open.get_mut(&(entry.reference.clone(), entry.cents)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    });
    bank.retain(|entry| {
        let Some(count) = open.get_mut(&(entry.reference.clone(), entry.cents)) else { return false };
        let left = *count > 0;
        *count = count.saturating_sub(1);
        left
    });
    before - books.len()
}

#[workflow]
pub async fn nightly_reconciliation(cx: &mut Cx) -> Result<Reconciled> {
    let tick = match cx.scheduled_for() {
        Some(tick) => tick,
        None => cx.now().await,
    };
    let day = day_before(tick)?;
    let (books, bank) = cx
        .join((
            async |cx: &mut Cx| nightly_reconciliation_books(cx, day).await,
            async |cx: &mut Cx| nightly_reconciliation_bank(cx, day).await,
        ))
        .await;
    let (mut only_books, mut only_bank) = (books?, bank?);
    let matched = matched(&mut only_books, &mut only_bank);
    Ok(Reconciled { day, matched, only_books, only_bank })
}
