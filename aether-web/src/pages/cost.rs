//! What models cost: by workflow, by model and by day, of the newest runs.

use std::collections::BTreeMap;

use aether_core::store::{RunFilter, StoreError};
use askama::Template;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::access::visit::{part, place};
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::spending::Sum;
use crate::text::time::{count, money};

/// Runs that are added up.
const NEWEST: usize = 500;
/// Days that are drawn.
const DAYS: i64 = 14;

#[derive(Debug, Template)]
#[template(path = "cost.html")]
struct Page {
    shell: Shell,
    total: Line,
    runs: String,
    is_all: bool,
    /// How many of them cannot be read, and are not counted.
    unreadable: u64,
    workflows: Vec<Line>,
    models: Vec<Line>,
    days: Vec<Day>,
    prices: String,
}

/// A line of a table.
#[derive(Debug, Default)]
struct Line {
    name: String,
    href: Option<String>,
    calls: String,
    input: String,
    output: String,
    cost: String,
    unpriced: u64,
    /// Its share of all tokens, in percent.
    share: String,
}

/// A day of the chart.
#[derive(Debug)]
struct Day {
    date: Date,
    x: String,
    y: String,
    height: String,
    width: String,
    says: String,
    is_empty: bool,
}

pub(crate) async fn page(ask: Ask) -> Answer {
    let engine = ask.shared.engine();
    let fault = |error| ask.store(&error);
    let runs = engine.runs(RunFilter::new().limit(NEWEST + 1)).await.map_err(fault)?;
    let (mut total, mut workflows, mut models, mut days) =
        (Sum::default(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut unreadable = 0;
    for run in runs.iter().take(NEWEST) {
        let prices = ask.shared.settings.prices.as_ref();
        let spent = match ask.shared.spendings.of(engine, prices, run).await {
            Ok(spent) => spent,
            // One run that cannot be read hides none of the others.
            Err(StoreError::Corrupt { .. } | StoreError::Codec { .. } | StoreError::UnknownRun { .. }) => {
                unreadable += 1;
                continue;
            }
            Err(error) => return Err(fault(error)),
        };
        for ((model, day), sum) in &*spent {
            total.add(sum);
            workflows.entry(run.workflow.clone()).or_insert_with(Sum::default).add(sum);
            models.entry(model.clone()).or_insert_with(Sum::default).add(sum);
            days.entry(*day).or_insert_with(Sum::default).add(sum);
        }
    }
    let all = total.usage.total();
    let base = &ask.visit.base;
    let of_workflow = |name: &str| Some(place(base, &format!("/?workflow={}", part(name))));
    let prices: Vec<_> = total.prices_of.iter().map(ToString::to_string).collect();
    html(&Page {
        shell: ask.shell("cost", "Cost").await?,
        runs: count(runs.len().min(NEWEST) as u64),
        is_all: runs.len() <= NEWEST,
        unreadable,
        workflows: lines(&workflows, all, of_workflow),
        models: lines(&models, all, |_| None),
        days: chart(&days, ask.now.to_zoned(TimeZone::UTC).date()),
        prices: prices.join(", "),
        total: Line::of("", &total, all, None),
    })
}

fn lines(sums: &BTreeMap<String, Sum>, all: u64, href: impl Fn(&str) -> Option<String>) -> Vec<Line> {
    let mut sorted: Vec<_> = sums.iter().collect();
    sorted.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.usage.total()));
    sorted.iter().map(|(name, sum)| Line::of(name, sum, all, href(name))).collect()
}

impl Line {
    fn of(name: &str, sum: &Sum, all: u64, href: Option<String>) -> Self {
        let money: Vec<_> = sum.money.iter().map(|(currency, nanos)| money(*nanos, currency)).collect();
        Self {
            name: name.to_owned(),
            href,
            calls: count(sum.calls),
            input: count(sum.usage.input_tokens),
            output: count(sum.usage.output_tokens),
            cost: if money.is_empty() { "—".to_owned() } else { money.join(" + ") },
            unpriced: sum.unpriced,
            share: format!("{:.1}%", sum.usage.total() as f64 * 100.0 / all.max(1) as f64),
        }
    }
}

/// The last days, today at the right.
fn chart(days: &BTreeMap<Date, Sum>, today: Date) -> Vec<Day> {
    let shown: Vec<Date> =
        (0..DAYS).rev().filter_map(|ago| today.checked_sub(jiff::Span::new().days(ago)).ok()).collect();
    let tokens = |date: &Date| days.get(date).map_or(0, |sum| sum.usage.total());
    let most = shown.iter().map(tokens).max().unwrap_or(0).max(1) as f64;
    let width = 100.0 / DAYS as f64;
    let day = |(at, date): (usize, &Date)| {
        let height = (tokens(date) as f64 * 100.0 / most).max(2.0);
        let sum = days.get(date);
        let money = sum.map(|sum| {
            sum.money.iter().map(|(currency, nanos)| money(*nanos, currency)).collect::<Vec<_>>().join(" + ")
        });
        Day {
            date: *date,
            x: format!("{:.2}%", at as f64 * width + width * 0.15),
            width: format!("{:.2}%", width * 0.7),
            y: format!("{:.1}%", 100.0 - height),
            height: format!("{height:.1}%"),
            says: format!("{date}: {} tokens {}", count(tokens(date)), money.unwrap_or_default()),
            is_empty: tokens(date) == 0,
        }
    };
    shown.iter().enumerate().map(day).collect()
}
