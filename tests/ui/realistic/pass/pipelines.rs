#![deny(warnings)]
//! Pipelines: extract, transform, load.

use aether::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub key: String,
    pub value: f64,
    pub day: Option<u16>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page {
    pub rows: Vec<Row>,
    pub next: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub read: usize,
    pub written: usize,
    pub refused: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.written += other.written;
        self.refused += other.refused;
    }
}

#[step(effect = "read", retry(max_retries = 5), timeout = "30s")]
async fn read_page(cx: &mut StepCx, source: &str, cursor: Option<&str>) -> Result<Page> {
    let text = std::fs::read_to_string(source)?;
    let _ = (cx, cursor);
    let rows = text.lines().map(|line| Row { key: line.to_owned(), ..Row::default() }).collect();
    Ok(Page { rows, next: None })
}

#[step(effect = "external", idempotent, retry(max_retries = 5))]
async fn write_rows(cx: &mut StepCx, table: &str, rows: &[Row]) -> Result<usize> {
    cx.changed("table", table, "insert").version("1");
    Ok(rows.len())
}

#[step(effect = "pure")]
async fn clean(rows: Vec<Row>) -> Result<(Vec<Row>, usize)> {
    let all = rows.len();
    let good: Vec<Row> = rows.into_iter().filter(|row| !row.key.is_empty() && row.value.is_finite()).collect();
    let refused = all - good.len();
    Ok((good, refused))
}

#[step(effect = "read")]
async fn list(cx: &mut StepCx, prefix: String) -> Result<Vec<String>> {
    let _ = cx;
    Ok((0..3).map(|n| format!("{prefix}/{n}.csv")).collect())
}

#[step(effect = "tool", idempotent)]
async fn publish(cx: &mut StepCx, report: BTreeMap<String, f64>) -> Result<()> {
    let _ = (cx.now(), report);
    Ok(())
}

const BATCH: usize = 500;
const TABLES: [&str; 3] = ["orders", "customers", "items"];
static PREFIX: &str = "s3://bucket";

fn mean(values: &[f64]) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)]
    let count = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}

// 21
#[workflow]
async fn copy_table(cx: &mut Cx, source: String, table: String) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut cursor: Option<String> = None;
    loop {
        let page = read_page(cx, &source, cursor.as_deref()).await?;
        counts.read += page.rows.len();
        let (rows, refused) = clean(cx, page.rows).await?;
        counts.refused += refused;
        for batch in rows.chunks(BATCH) {
            counts.written += write_rows(cx, &table, batch).await?;
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => break Ok(counts),
        }
    }
}

// 22
#[workflow]
async fn copy_all(cx: &mut Cx) -> Result<Counts> {
    let mut total = Counts::default();
    for table in TABLES {
        total += copy_table(cx, format!("{PREFIX}/{table}"), table.to_owned()).await?;
    }
    Ok(total)
}

// 23
#[workflow]
async fn fan_out(cx: &mut Cx, prefix: String) -> Result<Counts> {
    let files = list(cx, prefix).await?;
    let copied = cx
        .each(files, async |cx: &mut Cx, file: String| {
            let table = file.rsplit('/').next().unwrap_or(&file).trim_end_matches(".csv").to_owned();
            copy_table(cx, file, table).await
        })
        .limit(2)
        .await;
    let mut total = Counts::default();
    for counts in copied {
        total += counts?;
    }
    Ok(total)
}

// 24
#[workflow]
async fn group_by_key(cx: &mut Cx, source: String) -> Result<BTreeMap<String, f64>> {
    let page = read_page(cx, &source, None).await?;
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for Row { key, value, .. } in page.rows {
        groups.entry(key).or_default().push(value);
    }
    let report: BTreeMap<String, f64> =
        groups.iter().filter_map(|(key, values)| Some((key.clone(), mean(values)?))).collect();
    publish(cx, report.clone()).await?;
    Ok(report)
}

// 25
#[workflow]
async fn nightly(cx: &mut Cx, days: u16) -> Result<Vec<Counts>> {
    let mut all = Vec::with_capacity(usize::from(days));
    for day in 0..days {
        let begun = cx.now().await;
        all.push(copy_all(cx).await?);
        if day + 1 < days {
            cx.sleep_until(begun + Duration::from_secs(24 * 3600)).await;
        }
    }
    Ok(all)
}

// 26
#[workflow]
async fn merge_sources(cx: &mut Cx, left: &str, right: &str) -> Result<usize> {
    let (a, b) = cx
        .join((
            async |cx: &mut Cx| read_page(cx, left, None).await,
            async |cx: &mut Cx| read_page(cx, right, None).await,
        ))
        .await;
    let mut rows = a?.rows;
    rows.extend(b?.rows);
    rows.sort_by(|x, y| x.key.cmp(&y.key).then(x.value.total_cmp(&y.value)));
    rows.dedup();
    Ok(write_rows(cx, "merged", &rows).await?)
}

// 27
#[workflow]
async fn sample(cx: &mut Cx, source: String, share: u64) -> Result<Vec<Row>> {
    let page = read_page(cx, &source, None).await?;
    let mut state = cx.random().await;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    Ok(page.rows.into_iter().filter(|_| next() % 100 < share).collect())
}

// 28
#[workflow]
async fn with_fallback(cx: &mut Cx, sources: Vec<String>) -> Result<Page> {
    let mut last = None;
    for source in &sources {
        match read_page(cx, source, None).await {
            Ok(page) => return Ok(page),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| Failure::permanent("no source"), Failure::from))
}

// 29
#[workflow]
async fn transform<T>(cx: &mut Cx, rows: Vec<T>, table: String) -> Result<usize>
where
    T: aether::definition::Recordable + Into<Row>,
{
    let rows: Vec<Row> = rows.into_iter().map(Into::into).collect();
    Ok(write_rows(cx, &table, &rows).await?)
}

// 30
#[workflow]
async fn check_quality(cx: &mut Cx, source: String, limit: f64) -> Result<Option<String>> {
    let page = read_page(cx, &source, None).await?;
    let total = page.rows.len();
    let (good, refused) = clean(cx, page.rows).await?;
    #[allow(clippy::cast_precision_loss)]
    let share = if total == 0 { 0.0 } else { refused as f64 / total as f64 };
    debug_assert!(good.len() + refused == total);
    Ok((share > limit).then(|| format!("{:.1} % refused of {total}", share * 100.0)))
}

fn main() {}
