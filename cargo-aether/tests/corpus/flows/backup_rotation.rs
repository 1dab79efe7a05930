//! Backups are kept by day, week and month, and the others are deleted
//! how: clean

use std::collections::BTreeSet;

use aether::jiff::{Timestamp, tz::TimeZone};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    name: String,
    taken: Timestamp,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Retention {
    days: usize,
    weeks: usize,
    months: usize,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Rotated {
    kept: Vec<String>,
    freed: u64,
}

/// The newest backup of each of the newest `limit` spans.
fn newest_of<K: Ord>(backups: &[Backup], limit: usize, span: impl Fn(&Backup) -> K) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let firsts = backups.iter().filter(|backup| seen.insert(span(backup)));
    firsts.take(limit).map(|backup| backup.name.as_str()).collect()
}

fn kept(backups: &mut [Backup], retention: Retention) -> BTreeSet<String> {
    backups.sort_by(|a, b| b.taken.cmp(&a.taken).then_with(|| a.name.cmp(&b.name)));
    let date = |backup: &Backup| backup.taken.to_zoned(TimeZone::UTC).date();
    let days = newest_of(backups, retention.days, date);
    let weeks = newest_of(backups, retention.weeks, |backup| {
        let week = date(backup).iso_week_date();
        (week.year(), week.week())
    });
    let months = newest_of(backups, retention.months, |backup| date(backup).first_of_month());
    days.into_iter().chain(weeks).chain(months).map(String::from).collect()
}

#[step(effect = "read")]
pub async fn backup_rotation_list(_cx: &mut StepCx, bucket: &str) -> Result<Vec<Backup>> {
    Ok(Vec::new())
}

#[step(effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 5))]
pub async fn backup_rotation_delete(_cx: &mut StepCx, bucket: &str, name: &str) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn backup_rotation(cx: &mut Cx, bucket: String, retention: Retention) -> Result<Rotated> {
    let mut backups = backup_rotation_list(cx, &bucket).await?;
    let keep = kept(&mut backups, retention);
    let mut rotated = Rotated::default();
    for backup in backups {
        if keep.contains(&backup.name) {
            rotated.kept.push(backup.name);
        } else {
            backup_rotation_delete(cx, &bucket, &backup.name).await?;
            rotated.freed += backup.bytes;
        }
    }
    Ok(rotated)
}
