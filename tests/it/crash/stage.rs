//! The world around the engines: what bodies did there outlives every process, and the body in which the next process
//! dies is chosen here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aether::prelude::*;
use aether_testing::CrashStore;

use super::program::{Call, Ending, Moment};

/// What bodies did, by idempotency key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deeds {
    /// Calls of the body.
    pub(crate) calls: u32,
    /// Changes of the world.
    pub(crate) changes: u32,
}

/// The world. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stage(Arc<Mutex<World>>);

#[derive(Debug, Default)]
struct World {
    deeds: BTreeMap<String, Deeds>,
    life: Option<Life>,
}

/// What a process brings with it.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) store: Arc<CrashStore>,
    /// The number of the body call in which the process dies, and when.
    pub(crate) death: Option<(u64, Moment)>,
    pub(crate) tempo: u64,
    /// Milliseconds of a unit of waiting.
    pub(crate) unit: u64,
    pub(crate) bodies: u64,
}

/// How a call goes.
struct Visit {
    waits: [Duration; 2],
    ending: Ending,
    death: Option<Moment>,
    key: String,
}

impl Stage {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next process.
    pub(crate) fn begin(&self, life: Life) {
        self.world().life = Some(life);
    }

    /// The process is gone.
    pub(crate) fn end(&self) {
        self.world().life = None;
    }

    /// Body calls of the newest process.
    pub(crate) fn bodies(&self) -> u64 {
        self.world().life.as_ref().map_or(0, |life| life.bodies)
    }

    pub(crate) fn happened(&self, key: &str) -> bool {
        self.world().deeds.get(key).is_some_and(|deeds| deeds.changes > 0)
    }

    pub(crate) fn deeds(&self) -> BTreeMap<String, Deeds> {
        self.world().deeds.clone()
    }

    /// The body of every step.
    pub(crate) async fn act(cx: &StepCx, call: &Call) -> Result<i64> {
        let attempt = cx.attempt();
        let stage = cx.dep::<Self>()?;
        let visit = stage.enter(cx.idempotency_key().as_str(), call, attempt);
        stage.die_at(&visit, Moment::Before).await;
        wait(visit.waits[0]).await;
        let happens = match visit.ending {
            Ending::Value => true,
            Ending::Unknown { happened } | Ending::Hang { happened } => happened,
            Ending::Failure(_) | Ending::Panic => false,
        };
        if happens && call.kind.changes_world() {
            stage.world().deeds.entry(visit.key.clone()).or_default().changes += 1;
        }
        stage.die_at(&visit, Moment::In).await;
        wait(visit.waits[1]).await;
        if visit.death == Some(Moment::After) {
            stage.freeze();
        }
        end(call, attempt, visit.ending).await
    }

    fn enter(&self, key: &str, call: &Call, attempt: u32) -> Visit {
        let mut world = self.world();
        let deeds = world.deeds.entry(key.to_owned()).or_default();
        deeds.calls += 1;
        // What is sent again under its key gets through.
        let again = deeds.calls > 1 && call.kind.changes_world();
        let ending = if again { Ending::Value } else { call.ending(attempt) };
        let mut visit = Visit { waits: [Duration::ZERO; 2], ending, death: None, key: key.to_owned() };
        if let Some(life) = &mut world.life {
            life.bodies += 1;
            visit.death = life.death.filter(|(number, _)| *number == life.bodies).map(|(_, moment)| moment);
            let drawn = mixed(life.tempo, key);
            visit.waits = [drawn % 5, drawn / 5 % 4].map(|units| Duration::from_millis(units * life.unit));
        }
        visit
    }

    fn freeze(&self) {
        if let Some(life) = &self.world().life {
            life.store.crash();
        }
    }

    async fn die_at(&self, visit: &Visit, moment: Moment) {
        if visit.death == Some(moment) {
            self.freeze();
            std::future::pending().await
        }
    }
}

async fn wait(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

/// Ends a body.
pub(crate) async fn end(call: &Call, attempt: u32, ending: Ending) -> Result<i64> {
    match ending {
        Ending::Value => Ok(call.value(attempt)),
        Ending::Failure(class) => Err(Failure::with_class(class.into(), call.message(attempt))),
        Ending::Unknown { .. } => Err(Failure::unknown(call.message(attempt))),
        Ending::Hang { .. } => std::future::pending().await,
        // Like a panic, without the noise.
        Ending::Panic => std::panic::resume_unwind(Box::new("as the script says")),
    }
}

/// A number from a tempo and a key (FNV-1a); 0 for tempo 0.
fn mixed(tempo: u64, key: &str) -> u64 {
    if tempo == 0 {
        return 0;
    }
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    key.bytes().fold(tempo ^ 0xCBF2_9CE4_8422_2325, mix) >> 7
}
