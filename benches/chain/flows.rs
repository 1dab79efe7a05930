//! The chains that the benches run: one workflow of sequential steps of a class, whose results are about 100 bytes.
//!
//! Promise: a chain whose result is not what its steps returned is an error, not a figure.

use std::time::{Duration, Instant};

use aether::prelude::*;

#[step(effect = "tool")]
async fn send(cx: &mut StepCx, number: u32) -> Result<String> {
    let _ = cx;
    Ok(format!("{number:0>100}"))
}

#[step(effect = "read")]
async fn look(cx: &mut StepCx, number: u32) -> Result<String> {
    let _ = cx;
    Ok(format!("{number:0>100}"))
}

#[workflow]
async fn tool_chain(cx: &mut Cx, steps: u32) -> Result<usize> {
    let mut length = 0;
    for number in 0..steps {
        length += send(cx, number).await?.len();
    }
    Ok(length)
}

#[workflow]
async fn read_chain(cx: &mut Cx, steps: u32) -> Result<usize> {
    let mut length = 0;
    for number in 0..steps {
        length += look(cx, number).await?.len();
    }
    Ok(length)
}

/// What the steps of a chain are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Tool,
    Read,
}

impl std::str::FromStr for Class {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name {
            "tool" => Ok(Self::Tool),
            "read" => Ok(Self::Read),
            other => Err(format!("unknown class {other}: tool or read")),
        }
    }
}

impl Class {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Read => "read",
        }
    }
}

/// One run of this id, from its start to its durable result: the time that took.
pub(crate) async fn one(
    engine: &Engine,
    class: Class,
    steps: u32,
    id: String,
) -> std::result::Result<Duration, String> {
    let begun = Instant::now();
    let length = match class {
        Class::Tool => {
            let run = engine.start::<tool_chain>(steps).id(id).await.map_err(|e| e.to_string())?;
            run.result().await.map_err(|e| e.to_string())?
        }
        Class::Read => {
            let run = engine.start::<read_chain>(steps).id(id).await.map_err(|e| e.to_string())?;
            run.result().await.map_err(|e| e.to_string())?
        }
    };
    if length != 100 * steps as usize {
        return Err(format!("a chain of {steps} steps returned {length} bytes"));
    }
    Ok(begun.elapsed())
}

/// `runs` runs, `inflight` at a time: how long all took, and each, from the shortest to the longest.
pub(crate) async fn lanes(
    engine: &Engine,
    class: Class,
    (runs, steps, inflight): (u32, u32, u32),
) -> std::result::Result<(Duration, Vec<Duration>), String> {
    let begun = Instant::now();
    let lanes = (0..inflight).map(|lane| {
        let engine = engine.clone();
        let runs = runs / inflight + u32::from(lane < runs % inflight);
        tokio::spawn(async move {
            let mut times = Vec::with_capacity(runs as usize);
            for _ in 0..runs {
                times.push(one(&engine, class, steps, uuid::Uuid::now_v7().to_string()).await?);
            }
            Ok::<_, String>(times)
        })
    });
    let mut times = Vec::new();
    for lane in lanes.collect::<Vec<_>>() {
        times.extend(lane.await.map_err(|e| e.to_string())??);
    }
    let elapsed = begun.elapsed();
    times.sort_unstable();
    Ok((elapsed, times))
}
