//! The world around the engines: what bodies did there outlives every process, and the body in which the next process
//! dies is chosen here.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use aether::prelude::*;
use aether_testing::CrashStore;

use super::bookings;
use super::program::{Call, Ending, Moment};
use super::steps::Kind;

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
pub(crate) struct Stage(Arc<Mutex<Environment>>);

#[derive(Debug, Default)]
struct Environment {
    deeds: BTreeMap<String, Deeds>,
    /// What bodies gave to whoever reports for them, by idempotency key.
    tokens: BTreeMap<String, String>,
    /// Where the deeds of several processes stand, a line each.
    file: Option<PathBuf>,
    life: Option<Life>,
}

impl Environment {
    fn note(&mut self, deed: Deed, key: &str) {
        self.write(&format!("{deed:?} {key}\n"));
        self.add(deed, key);
    }

    fn give(&mut self, key: &str, token: &str) {
        self.write(&format!("Token {key} {token}\n"));
        self.tokens.insert(key.to_owned(), token.to_owned());
    }

    fn write(&self, line: &str) {
        if let Some(file) = &self.file {
            let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
            // One write, so that lines of several processes do not mix.
            file.write_all(line.as_bytes()).unwrap();
        }
    }

    fn add(&mut self, deed: Deed, key: &str) {
        let deeds = self.deeds.entry(key.to_owned()).or_default();
        match deed {
            Deed::Call => deeds.calls += 1,
            Deed::Change => deeds.changes += 1,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Call,
    Change,
}

/// The world of a process that executes one program alone: for bodies that get no context.
static ALONE: OnceLock<Stage> = OnceLock::new();

/// What a process brings with it.
#[derive(Debug)]
pub(crate) struct Life {
    /// What dies with it; none where the process is killed from outside.
    pub(crate) store: Option<Arc<CrashStore>>,
    /// The number of the body call in which the process dies, and when.
    pub(crate) death: Option<(u64, Moment)>,
    pub(crate) tempo: u64,
    /// Milliseconds of a unit of waiting.
    pub(crate) unit: u64,
    pub(crate) bodies: u64,
    /// Whether its runs are in a Postgres database.
    pub(crate) on_server: bool,
}

/// How a call goes.
struct Visit {
    waits: [Duration; 2],
    ending: Ending,
    death: Option<Moment>,
}

impl Stage {
    fn world(&self) -> MutexGuard<'_, Environment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world as `file` tells of it, which goes on telling.
    pub(crate) fn on(file: &Path) -> Self {
        let mut world = Environment { file: Some(file.to_owned()), ..Environment::default() };
        for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
            match line.split_once(' ') {
                Some(("Call", key)) => world.add(Deed::Call, key),
                Some(("Change", key)) => world.add(Deed::Change, key),
                Some(("Token", given)) => {
                    let (key, token) = given.split_once(' ').unwrap();
                    world.tokens.insert(key.to_owned(), token.to_owned());
                }
                _ => panic!("not a deed: {line}"),
            }
        }
        Self(Arc::new(Mutex::new(world)))
    }

    /// Makes this the world of bodies without a context, too.
    pub(crate) fn alone(self) -> Self {
        ALONE.set(self.clone()).unwrap();
        self
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

    /// Whether the world was changed under `key`, by this process or another one.
    pub(crate) fn happened(&self, key: &str) -> bool {
        let file = self.world().file.clone();
        let all = file.map_or_else(|| self.deeds(), |file| Self::on(&file).deeds());
        all.get(key).is_some_and(|deeds| deeds.changes > 0)
    }

    pub(crate) fn deeds(&self) -> BTreeMap<String, Deeds> {
        self.world().deeds.clone()
    }

    /// What the body under `key` gave to whoever reports for it.
    pub(crate) fn token(&self, key: &str) -> Option<String> {
        self.world().tokens.get(key).cloned()
    }

    /// Whether this is the world of a process that executes one program alone.
    pub(crate) fn is_alone() -> bool {
        ALONE.get().is_some()
    }

    /// The body of every step but those that are pure or a transaction.
    pub(crate) async fn act(cx: &StepCx, call: &Call) -> Result<i64> {
        let (stage, key) = (cx.dep::<Self>()?, cx.idempotency_key());
        let value = stage.visit(key.as_str(), call, cx.attempt()).await?;
        match call.kind {
            Kind::Confirmed => drop(cx.changed("file", key.as_str(), "write")),
            Kind::CalledBack => {
                let callback = cx.callback()?;
                stage.world().give(key.as_str(), callback.token());
                return Err(callback.pending().into());
            }
            _ => {}
        }
        Ok(value)
    }

    /// The body of a transaction step. It inserts a row however it ends, and waits for nothing.
    pub(crate) async fn book(cx: &StepCx, call: &Call) -> Result<i64> {
        let (stage, key) = (cx.dep::<Self>()?, cx.idempotency_key());
        let visit = stage.enter(key.as_str(), call, cx.attempt());
        visit.park_at(Moment::Before);
        let on_server = stage.world().life.as_ref().is_some_and(|life| life.on_server);
        bookings::insert(cx, on_server)?;
        visit.park_at(Moment::In);
        visit.park_at(Moment::After);
        end(call, cx.attempt(), visit.ending).await
    }

    /// The body of a pure step, which is seen only where a process executes one program alone.
    pub(crate) async fn compute(call: &Call) -> Result<i64> {
        match ALONE.get() {
            Some(stage) => stage.visit("pure", call, 0).await,
            None => end(call, 0, call.ending(0)).await,
        }
    }

    async fn visit(&self, key: &str, call: &Call, attempt: u32) -> Result<i64> {
        let visit = self.enter(key, call, attempt);
        self.die_at(&visit, Moment::Before).await;
        wait(visit.waits[0]).await;
        let happens = match visit.ending {
            Ending::Value => true,
            Ending::Unknown { happened } | Ending::Hang { happened } => happened,
            Ending::Failure(_) | Ending::Panic => false,
        };
        if happens && call.kind.changes_world() {
            self.world().note(Deed::Change, key);
        }
        self.die_at(&visit, Moment::In).await;
        wait(visit.waits[1]).await;
        if visit.death == Some(Moment::After) {
            self.freeze();
        }
        end(call, attempt, visit.ending).await
    }

    fn enter(&self, key: &str, call: &Call, attempt: u32) -> Visit {
        let mut world = self.world();
        world.note(Deed::Call, key);
        let ending = call.ending_of(attempt, world.deeds[key].calls);
        let mut visit = Visit { waits: [Duration::ZERO; 2], ending, death: None };
        if let Some(life) = &mut world.life {
            // Nothing but a signal ends a process while the store runs a body.
            if call.kind == Kind::Booked && !Self::is_alone() {
                return visit;
            }
            life.bodies += 1;
            // By the real clock nobody has the time to wait until a step's time is up.
            if let (Ending::Hang { happened }, true) = (visit.ending, life.unit == 1) {
                visit.ending = Ending::Unknown { happened };
            }
            visit.death = life.death.filter(|(number, _)| *number == life.bodies).map(|(_, moment)| moment);
            let drawn = mixed(life.tempo, key);
            visit.waits = [drawn % 5, drawn / 5 % 4].map(|units| Duration::from_millis(units * life.unit));
        }
        visit
    }

    fn freeze(&self) {
        if let Some(store) = self.world().life.as_ref().and_then(|life| life.store.as_ref()) {
            store.crash();
        }
    }

    async fn die_at(&self, visit: &Visit, moment: Moment) {
        if visit.death == Some(moment) {
            self.freeze();
            std::future::pending().await
        }
    }
}

impl Visit {
    /// Where the process is to be killed now, it says so and waits for that.
    fn park_at(&self, moment: Moment) {
        if self.death == Some(moment) {
            println!("\nhere");
            loop {
                std::thread::park();
            }
        }
    }
}

async fn wait(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

/// Ends a body.
async fn end(call: &Call, attempt: u32, ending: Ending) -> Result<i64> {
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
pub(crate) fn mixed(tempo: u64, key: &str) -> u64 {
    if tempo == 0 {
        return 0;
    }
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    key.bytes().fold(tempo ^ 0xCBF2_9CE4_8422_2325, mix) >> 7
}
