//! The hosts that a client calls: who may begin now, and who waits.
//!
//! Promise: requests begin in the order in which they came; one that waits has sent nothing and holds nothing up but those
//! behind it, and leaves the line when it is dropped. A host without a limit that asked nobody to wait keeps nobody back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

use super::host_limit::HostLimit;
use crate::holds::Holds;

/// How many hosts are remembered before those are forgotten that nobody calls.
const REMEMBERED: usize = 1_000;

/// Limits and holds of hosts; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    limits: HashMap<String, HostLimit>,
    /// For hosts that have none of their own.
    each: Option<HostLimit>,
    gates: Lock<HashMap<String, Arc<Gate>>>,
    holds: Holds<HeldHost>,
}

/// A host and its port: what a service at one port says holds for that service.
type HeldHost = (String, u16);

/// The line before a host.
#[derive(Debug)]
struct Gate {
    places: Option<Arc<Semaphore>>,
    pace: Option<Duration>,
    /// Who has it is the first in the line. When the next request may begin.
    turn: Mutex<Option<Instant>>,
}

/// A request's place at its host, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
    /// So that the gate is not forgotten.
    _gate: Option<Arc<Gate>>,
}

impl Hosts {
    pub(crate) fn new(limits: HashMap<String, HostLimit>, each: Option<HostLimit>) -> Self {
        Self(Arc::new(Inner { limits, each, ..Inner::default() }))
    }

    /// Whether a request to `url` may have to wait.
    pub(crate) fn keeps_back(&self, url: &Url) -> bool {
        self.limit(host(url)).is_some() || self.held_for(url).is_some()
    }

    /// Waits until a request to `url` may begin.
    ///
    /// # Errors
    /// How much longer the host asked to be left alone, where that is more than `patience`.
    pub(crate) async fn enter(&self, url: &Url, patience: Duration) -> Result<Place, Duration> {
        self.await_hold(url, patience).await?;
        let Some(gate) = self.gate(host(url)) else { return Ok(Place { _permit: None, _gate: None }) };
        let permit = {
            let mut turn = gate.turn.lock().await;
            let permit = match &gate.places {
                // Closed by nobody.
                Some(places) => Arc::clone(places).acquire_owned().await.ok(),
                None => None,
            };
            // What the requests before this one were told.
            self.await_hold(url, patience).await?;
            if let Some(pace) = gate.pace {
                if let Some(at) = *turn {
                    sleep_until(at).await;
                }
                *turn = Instant::now().checked_add(pace);
            }
            permit
        };
        Ok(Place { _permit: permit, _gate: Some(gate) })
    }

    /// Keeps what a host answered in mind: one that has too much to do is left alone until the time that it named.
    pub(crate) fn note(&self, url: &Url, status: u16, retry_after: Option<Duration>) {
        if let (429 | 503, Some(wait)) = (status, retry_after) {
            self.0.holds.hold(held(url), wait, "");
        }
    }

    async fn await_hold(&self, url: &Url, patience: Duration) -> Result<(), Duration> {
        while let Some(left) = self.held_for(url) {
            if left > patience {
                return Err(left);
            }
            sleep(left).await;
        }
        Ok(())
    }

    fn held_for(&self, url: &Url) -> Option<Duration> {
        self.0.holds.left(&held(url)).map(|(left, _)| left)
    }

    fn limit(&self, host: &str) -> Option<&HostLimit> {
        self.0.limits.get(host).or(self.0.each.as_ref())
    }

    fn gate(&self, host: &str) -> Option<Arc<Gate>> {
        let limit = self.limit(host)?;
        let mut gates = self.gates();
        if gates.len() >= REMEMBERED && !gates.contains_key(host) {
            gates.retain(|_, gate| gate.is_needed());
        }
        let gate = gates.entry(host.to_owned()).or_insert_with(|| Arc::new(Gate::new(limit)));
        Some(Arc::clone(gate))
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<String, Arc<Gate>>> {
        self.0.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    fn new(limit: &HostLimit) -> Self {
        Self {
            places: limit
                .concurrent
                .map(|places| Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)))),
            pace: limit.pace(),
            turn: Mutex::default(),
        }
    }

    /// Whether somebody is at the host or in the line, or came so lately that the next one has to wait.
    fn is_needed(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
            || self.turn.try_lock().map_or(true, |next| next.is_some_and(|next| next > Instant::now()))
    }
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

fn held(url: &Url) -> HeldHost {
    (host(url).to_owned(), url.port_or_known_default().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const LONG: Duration = Duration::from_secs(3_600);

    fn hosts(limit: HostLimit) -> Hosts {
        Hosts::new([("api.example.com".to_owned(), limit)].into(), None)
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_begin_in_their_order_and_one_that_is_dropped_leaves_the_line() {
        let (hosts, api) = (hosts(HostLimit::new().concurrent(1)), url("https://api.example.com/"));
        assert!(hosts.keeps_back(&api) && !hosts.keeps_back(&url("https://other.example.com/")));
        let first = hosts.enter(&api, LONG).await.unwrap();
        let mut line: Vec<_> = (0..4).map(|_| Box::pin(hosts.enter(&api, LONG))).collect();
        for waiting in &mut line {
            assert!(waiting.now_or_never().is_none());
        }
        let (mut second, dropped) = (line.remove(0), line.remove(0));
        drop(dropped);
        let [mut third, mut last] = <[_; 2]>::try_from(line).ok().unwrap();
        drop(first);
        // Whoever looks first: the line decides.
        assert!((&mut last).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        let place = (&mut second).now_or_never().unwrap().unwrap();
        drop(place);
        assert!((&mut last).now_or_never().is_none());
        let place = (&mut third).now_or_never().unwrap().unwrap();
        drop(place);
        assert!((&mut last).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_requests_begin_in_a_span_than_its_rate() {
        let hosts = hosts(HostLimit::new().per_second(10));
        let (api, begin) = (url("https://api.example.com/"), Instant::now());
        let mut begun = Vec::new();
        for _ in 0..25 {
            drop(hosts.enter(&api, LONG).await.unwrap());
            begun.push(begin.elapsed());
        }
        assert!(begun.windows(11).all(|ten| ten[10] - ten[0] >= Duration::from_secs(1)), "{begun:?}");
        assert!(begun[24] < Duration::from_secs(3), "{begun:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_asked_to_wait_is_left_alone_and_another_port_is_not() {
        let (hosts, api) = (Hosts::default(), url("https://api.example.com/"));
        hosts.note(&api, 200, Some(LONG));
        hosts.note(&api, 429, None);
        assert!(!hosts.keeps_back(&api), "neither of them asks to wait");
        hosts.note(&api, 503, Some(Duration::from_secs(10)));
        assert!(hosts.keeps_back(&api) && !hosts.keeps_back(&url("https://api.example.com:8443/")));
        assert!(hosts.enter(&api, Duration::from_secs(1)).await.unwrap_err() > Duration::from_secs(9));
        let began = Instant::now();
        hosts.enter(&api, Duration::from_secs(20)).await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(9) && !hosts.keeps_back(&api));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_request_was_told_holds_for_those_in_the_line() {
        let (hosts, api) = (hosts(HostLimit::new().concurrent(1)), url("https://api.example.com/"));
        let first = hosts.enter(&api, LONG).await.unwrap();
        let mut second = Box::pin(hosts.enter(&api, Duration::from_secs(1)));
        assert!((&mut second).now_or_never().is_none());
        hosts.note(&api, 429, Some(Duration::from_secs(60)));
        drop(first);
        assert!(second.await.unwrap_err() > Duration::from_secs(59));
        assert!(hosts.enter(&api, LONG).await.is_ok(), "its place is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_that_nobody_calls_are_forgotten() {
        let hosts = Hosts::new(HashMap::new(), Some(HostLimit::new().concurrent(1)));
        let busy = hosts.enter(&url("https://busy.example.com/"), LONG).await.unwrap();
        for number in 0..2 * REMEMBERED {
            hosts.enter(&url(&format!("https://{number}.example.com/")), LONG).await.unwrap();
        }
        assert!(hosts.gates().len() <= REMEMBERED + 1);
        assert!(hosts.enter(&url("https://busy.example.com/"), LONG).now_or_never().is_none());
        drop(busy);
    }
}
