//! Readings of a sensor are judged by a moving window, and an alert has a pause after it
//! how: clean

use std::collections::VecDeque;
use std::time::Duration;

use aether::jiff::{SignedDuration, Timestamp};
use aether::prelude::*;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sensor {
    name: String,
    window: usize,
    deviations: f64,
    recent: VecDeque<f64>,
    quiet_until: Option<Timestamp>,
    alerts: u64,
}

impl Sensor {
    fn is_outlier(&self, value: f64) -> bool {
        if self.recent.len() < self.window {
            return false;
        }
        let count = self.recent.len() as f64;
        let mean = self.recent.iter().sum::<f64>() / count;
        let variance = self.recent.iter().map(|past| (past - mean) * (past - mean)).sum::<f64>() / count;
        (value - mean).abs() > self.deviations * variance.sqrt()
    }

    fn push(&mut self, value: f64) {
        self.recent.push_back(value);
        while self.recent.len() > self.window {
            self.recent.pop_front();
        }
    }

    fn median(&self) -> Option<f64> {
        let mut sorted: SmallVec<[f64; 32]> = self.recent.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn sensor_alerts_page(
    _cx: &mut StepCx,
    sensor: &str,
    value: f64,
    usual: Option<f64>,
) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn sensor_alerts(cx: &mut Cx, mut sensor: Sensor) -> Result<u64> {
    for _ in 0..1_000 {
        let value: f64 = match cx.signal("reading").timeout(Duration::from_secs(3600)).await {
            Ok(value) => value,
            Err(StepError::TimedOut(_)) => return Ok(sensor.alerts),
            Err(other) => return Err(other.into()),
        };
        if sensor.is_outlier(value) {
            let now = cx.now().await;
            if sensor.quiet_until.is_none_or(|until| now >= until) {
                sensor_alerts_page(cx, &sensor.name, value, sensor.median()).await?;
                sensor.alerts += 1;
                sensor.quiet_until = now.checked_add(SignedDuration::from_mins(15)).ok();
            }
        }
        sensor.push(value);
    }
    cx.continue_as_new::<sensor_alerts>(sensor).await
}
