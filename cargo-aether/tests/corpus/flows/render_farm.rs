//! A film is rendered by another system that calls back, with a probe for lost calls
//! how: clean

use std::ops::Range;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Film {
    name: String,
    frames: u32,
    quality: Quality,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quality {
    Draft,
    Final,
}

impl Quality {
    const fn frames_per_job(self) -> u32 {
        match self {
            Self::Draft => 1_000,
            Self::Final => 120,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    film: String,
    frames: Range<u32>,
}

fn jobs(film: &Film) -> Vec<Job> {
    let size = film.quality.frames_per_job();
    let starts = (0..film.frames).step_by(size as usize);
    starts.map(|from| Job { film: film.name.clone(), frames: from..(from + size).min(film.frames) }).collect()
}

#[step(effect = "external", on_unknown = "ask", timeout = "1m")]
pub async fn render_farm_job(cx: &mut StepCx, job: &Job) -> Result<String> {
    let callback = cx.callback()?;
    let order = serde_json::json!({ "job": job, "token": callback.token() });
    cx.http().post("https://farm.example/jobs").json(&order).send().await?.error_for_status()?;
    Err(callback.pending().into())
}

#[step(effect = "tool", probe = render_farm_looked)]
pub async fn render_farm_join(_cx: &mut StepCx, film: &str, parts: Vec<String>) -> Result<String> {
    Ok(format!("/films/{film}-{}.mkv", parts.len()))
}

async fn render_farm_looked(_cx: &mut StepCx, film: &str, parts: Vec<String>) -> Result<Probe<String>> {
    Ok(if film.is_empty() { Probe::DidNotHappen } else { Probe::Unknown })
}

#[workflow]
pub async fn render_farm(cx: &mut Cx, film: Film) -> Result<String> {
    let parts =
        cx.each(jobs(&film), async |cx: &mut Cx, job| render_farm_job(cx, &job).await).limit(16).await;
    let parts = parts.into_iter().collect::<std::result::Result<Vec<String>, _>>()?;
    Ok(render_farm_join(cx, &film.name, parts).await?)
}
