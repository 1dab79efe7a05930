//! A step that exports rows tells its progress in a stream of the run
//! how: clean

use aether::jiff::civil::Date;
use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    id: u64,
    day: Date,
    cents: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    rows: usize,
    bytes: usize,
    checksum: u32,
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("id;day;amount\n");
    for Row { id, day, cents } in rows {
        let sign = if *cents < 0 { "-" } else { "" };
        let cents = cents.unsigned_abs();
        text.push_str(&format!("{id};{day};{sign}{}.{:02}\n", cents / 100, cents % 100));
    }
    text
}

fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[step(effect = "read")]
pub async fn export_with_progress_rows(_cx: &mut StepCx, table: &str, after: u64) -> Result<Vec<Row>> {
    Ok(Vec::new())
}

#[step(effect = "tool", idempotent, on_unknown = "retry", heartbeat = "30s", timeout = "10m")]
pub async fn export_with_progress_write(
    cx: &mut StepCx,
    table: &str,
    number: usize,
    text: &str,
) -> Result<usize> {
    let progress = cx.stream("progress");
    for (line, _) in text.lines().enumerate().step_by(1_000) {
        progress.send(&format!("{table}.{number}: {line}"));
        cx.heartbeat(line);
    }
    Ok(text.len())
}

#[workflow]
pub async fn export_with_progress(cx: &mut Cx, table: String) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut after = 0;
    loop {
        let rows = export_with_progress_rows(cx, &table, after).await?;
        let Some(last) = rows.last() else { return Ok(parts) };
        after = last.id;
        let text = csv(&rows);
        let bytes = export_with_progress_write(cx, &table, parts.len(), &text).await?;
        parts.push(Part { rows: rows.len(), bytes, checksum: checksum(&text) });
    }
}
