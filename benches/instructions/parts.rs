//! The parts that are counted, and how each performs its steps.

use std::str::FromStr;
use std::sync::Arc;

use aether::id::RunId;
use aether::prelude::*;
use aether::store::journal::Frame;
use aether::store::{MemoryStore, Store};
use aether_core::journal::event::Event;

use super::Result;
use super::flows::{self, Class};
use super::still::StillWorld;
use super::writer;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Tool,
    Read,
    Encode,
    Match,
    Write,
}

/// Steps of the run that is replayed; a replay has to read all of it.
const REPLAYED: u32 = 100;

impl Part {
    pub(crate) const ALL: [Self; 5] = [Self::Tool, Self::Read, Self::Encode, Self::Match, Self::Write];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tool => "gate_tool",
            Self::Read => "gate_read",
            Self::Encode => "encode",
            Self::Match => "match",
            Self::Write => "write",
        }
    }

    /// What is counted of it, for each step.
    pub(crate) fn is_what(self) -> &'static str {
        match self {
            Self::Tool => "a tool step, from its call to its recorded outcome, on the memory store",
            Self::Read => "a read step, on the memory store",
            Self::Encode => "the events of a tool step, made the text of its two frames",
            Self::Match => {
                "a tool step in a replay: its frames read and checked, its call answered from history"
            }
            Self::Write => "the two appends of a tool step, in batches of 64 into a SQLite file",
        }
    }

    /// So many steps are enough for a difference that does not depend on chance.
    pub(crate) fn steps(self) -> u32 {
        match self {
            Self::Tool | Self::Read => 500,
            Self::Encode => 2_000,
            Self::Match => 5 * REPLAYED,
            Self::Write => 20 * writer::STEPS_OF_A_BATCH,
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        Self::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| format!("no part {name}"))
    }
}

/// Performs so many steps, on one thread and those of the store.
pub(crate) fn perform(part: Part, steps: u32) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match part {
            Part::Tool => chain(&engine(Arc::default()).await?, Class::Tool, steps).await.map(drop),
            Part::Read => chain(&engine(Arc::default()).await?, Class::Read, steps).await.map(drop),
            Part::Encode => encode(steps).await,
            Part::Match => replay(steps / REPLAYED).await,
            Part::Write => writer::write(&step().await?, steps / writer::STEPS_OF_A_BATCH).await,
        }
    })
}

async fn engine(store: Arc<MemoryStore>) -> Result<Engine> {
    Ok(Engine::builder().store(store).environment(Arc::new(StillWorld::default())).start().await?)
}

async fn chain(engine: &Engine, class: Class, steps: u32) -> Result<RunId> {
    flows::one(engine, class, steps, "chain".to_owned()).await?;
    Ok(RunId::new("chain")?)
}

async fn replay(times: u32) -> Result<()> {
    let engine = engine(Arc::default()).await?;
    let run = chain(&engine, Class::Tool, REPLAYED).await?;
    for _ in 0..times {
        let verified = engine.verify(&run).await?;
        if verified.matched != u64::from(REPLAYED) {
            return Err(format!("a replay matched {} of {REPLAYED} steps", verified.matched).into());
        }
    }
    Ok(())
}

/// The events of a tool step, frame by frame, as the engine has recorded them.
async fn step() -> Result<Vec<Vec<Event>>> {
    let store = Arc::new(MemoryStore::new());
    let run = chain(&engine(Arc::clone(&store)).await?, Class::Tool, 1).await?;
    let frames = store.load(&run, 0).await?.into_iter().map(|frame| frame.events());
    let frames = frames.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(frames.into_iter().filter(|events| events.iter().all(|event| event.command().is_some())).collect())
}

async fn encode(times: u32) -> Result<()> {
    let step = step().await?;
    for _ in 0..times {
        for events in &step {
            std::hint::black_box(Frame::encode(std::hint::black_box(events))?);
        }
    }
    Ok(())
}
