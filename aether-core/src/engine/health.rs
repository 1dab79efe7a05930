//! Whether an engine is well, as values and as the answers of HTTP probes.
//!
//! Promise: asking changes nothing, except for `/drain`, and answers in bounded time, also where the store does not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::engine::inner::{Engine, Inner, now};
use crate::vocabulary::measures::Gauge;
use crate::vocabulary::waiting::millis;

/// How long a probe waits for the store.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long `/drain` gives bodies in flight.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// How an engine is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// Which store it has, as [`Store::describe`](crate::store::Store::describe) says it.
    pub store: String,
    /// Why the store could not be read just now; `None` where it answered.
    pub unreachable: Option<String>,
    /// For how long the store has refused every write of this engine's own, and why.
    pub refused_writes: Option<(Duration, String)>,
    /// How long ago it renewed its leases; `None` where it had no need so far.
    pub renewed: Option<Duration>,
    /// How long ago it looked for due runs with success; `None` where it did not so far, as a client never does.
    pub claimed: Option<Duration>,
    /// How many runs it holds.
    pub active: usize,
    /// The most runs that it holds at the same time.
    pub max_active: usize,
    /// For how long the oldest due run of the store has waited for a worker, of whatever code it is; `None` where none
    /// is due.
    pub lag: Option<Duration>,
    /// Whether it is a client, which claims no runs.
    pub client: bool,
    /// Whether it takes no more runs: a drain or a shutdown has begun.
    pub draining: bool,
    /// Whether a task of the engine has ended that must not.
    pub broken: bool,
}

impl Health {
    /// Whether the process is of any use: only a restart helps one that is not. A store that does not answer is no reason.
    pub fn is_live(&self) -> bool {
        !self.broken
    }

    /// Whether requests should be sent here.
    pub fn is_ready(&self) -> bool {
        self.not_ready().is_none()
    }

    /// Why requests should not be sent here, in one sentence; `None` where they should.
    pub fn not_ready(&self) -> Option<String> {
        if self.broken {
            return Some("a task of the engine has ended: restart the process".into());
        }
        if self.draining {
            return Some("it is draining".into());
        }
        if let Some(error) = &self.unreachable {
            return Some(format!("the store cannot be read: {error}"));
        }
        if let Some((time, error)) = &self.refused_writes {
            return Some(format!("the store has refused writes for {} s: {error}", time.as_secs()));
        }
        (!self.client && self.claimed.is_none()).then(|| "it has not looked for due runs yet".into())
    }

    /// Whether it has no room for the runs that are due: others must take them, or they wait.
    pub fn is_full(&self) -> bool {
        !self.client && self.active >= self.max_active
    }

    /// As JSON, times in milliseconds.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # async fn example(engine: &Engine) {
    /// println!("{}", engine.health().await.to_json());
    /// # }
    /// ```
    pub fn to_json(&self) -> Value {
        let refused =
            self.refused_writes.as_ref().map(|(time, error)| json!({ "ms": millis(*time), "error": error }));
        json!({
            "live": self.is_live(),
            "ready": self.is_ready(),
            "not_ready": self.not_ready(),
            "store": self.store,
            "unreachable": self.unreachable,
            "refused_writes": refused,
            "renewed_ms_ago": self.renewed.map(millis),
            "claimed_ms_ago": self.claimed.map(millis),
            "active": self.active,
            "max_active": self.max_active,
            "full": self.is_full(),
            "lag_ms": self.lag.map(millis),
            "client": self.client,
            "draining": self.draining,
        })
    }
}

/// The answer to an HTTP probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The HTTP status: 200 or 503.
    pub status: u16,
    /// JSON: see [`Health::to_json`].
    pub body: String,
}

impl Engine {
    /// How the engine is. Reads the store once, and waits for it for two seconds at most.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # async fn example(engine: &Engine) {
    /// if let Some(why) = engine.health().await.not_ready() {
    ///     println!("send no requests here: {why}");
    /// }
    /// # }
    /// ```
    pub async fn health(&self) -> Health {
        let inner = &*self.inner;
        let due = oldest_due(inner).await;
        let now = inner.shared.environment.monotonic();
        let ago = |then: Duration| now.saturating_sub(then);
        let mut vitals = inner.vitals();
        vitals.asked = true;
        let refused = vitals.refusing(now, inner.settings.lease);
        let (claimed, renewed, broken) = (vitals.claimed.map(ago), vitals.renewed.map(ago), vitals.broken);
        drop(vitals);
        Health {
            store: inner.shared.store.describe(),
            unreachable: due.as_ref().err().cloned(),
            refused_writes: refused,
            renewed,
            claimed,
            active: inner.settings.max_active.saturating_sub(inner.room()),
            max_active: inner.settings.max_active,
            lag: due.ok().flatten(),
            client: !inner.settings.advances,
            draining: inner.draining.load(Ordering::Acquire) || inner.is_stopping(),
            broken,
        }
    }

    /// Measures this engine's own work, from its start on: for metrics. `aether-otel` makes them of it.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # fn example(engine: &Engine) {
    /// let appends = engine.gauge().read().appends;
    /// println!("{} appends took {:?}", appends.count(), appends.sum);
    /// # }
    /// ```
    pub fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.inner.shared.gauge)
    }

    /// Answers the HTTP probes of orchestrators and load balancers; `None` for any other path. Mount it in the program's
    /// own web server:
    ///
    /// | path | |
    /// |---|---|
    /// | `/healthz` | 200 as long as a restart would not help: [`Health::is_live`] |
    /// | `/readyz` | 200 where requests should be sent here: [`Health::is_ready`] |
    /// | `/drain` | [drains](Engine::drain), waits for it, and answers 200. Ten seconds of patience, or what `/drain?seconds=25` says |
    ///
    /// The bodies are JSON. Do not let strangers ask for `/drain`.
    ///
    /// ```
    /// # use aether_core::engine::Engine;
    /// # async fn example(engine: &Engine) {
    /// if let Some(probe) = engine.probe("/readyz").await {
    ///     println!("{} {}", probe.status, probe.body);
    /// }
    /// # }
    /// ```
    pub async fn probe(&self, path: &str) -> Option<Probe> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (is_well, body) = match path {
            "/healthz" => {
                let health = self.health().await;
                (health.is_live(), health.to_json())
            }
            "/readyz" => {
                let health = self.health().await;
                (health.is_ready(), health.to_json())
            }
            "/drain" => {
                let seconds = query.split('&').find_map(|pair| pair.strip_prefix("seconds=")?.parse().ok());
                match self
                    .drain(
                        seconds.map_or(DRAIN_PATIENCE, |seconds: u64| Duration::from_secs(seconds.min(3600))),
                    )
                    .await
                {
                    Ok(drained) => (true, json!({ "in_time": drained.in_time, "cut_off": drained.cut_off })),
                    Err(error) => (false, json!({ "error": error.to_string() })),
                }
            }
            _ => return None,
        };
        Some(Probe { status: if is_well { 200 } else { 503 }, body: body.to_string() })
    }
}

/// For how long the oldest due run has waited, or why the store does not say.
async fn oldest_due(inner: &Inner) -> Result<Option<Duration>, String> {
    let limit = inner.shared.environment.sleep(PATIENCE);
    match select(inner.shared.store.next_wake(), limit).await {
        Either::Left((Ok(wake), _)) => {
            let late = |wake: Timestamp| Duration::try_from(now(inner).duration_since(wake)).ok();
            Ok(wake.and_then(late))
        }
        Either::Left((Err(error), _)) => Err(error.to_string()),
        Either::Right(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
