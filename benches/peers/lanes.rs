//! What every peer runs and prints: a chain of sequential trivial steps whose results are 100 bytes.
//!
//! `peer-NAME --at ADDRESS --runs R --steps S --inflight C` prints one JSON line. A run counts from its start to its result.
//!
//! Promise: a chain whose result is not what its steps returned is an error, not a figure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What is asked for on the command line.
#[derive(Clone)]
pub struct Chain {
    /// Where the store or the server is: a URL.
    pub at: String,
    pub runs: u32,
    pub steps: u32,
    pub inflight: u32,
}

impl Chain {
    pub fn parse() -> Result<Self, String> {
        let mut chain = Self { at: String::new(), runs: 100, steps: 10, inflight: 1 };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
            let number = || value.parse::<u32>().map_err(|e| format!("{arg} {value}: {e}"));
            match arg.as_str() {
                "--at" => chain.at = value,
                "--runs" => chain.runs = number()?.max(1),
                "--steps" => chain.steps = number()?.max(1),
                "--inflight" => chain.inflight = number()?.max(1),
                _ => return Err(format!("unknown option {arg}")),
            }
        }
        if chain.at.is_empty() {
            return Err("--at is missing".into());
        }
        Ok(chain)
    }

    /// Runs all chains, `inflight` at a time, after one chain in each lane that is not counted. `one` gets the id of a
    /// run and gives the bytes that its steps have returned. `about` says what ran them.
    pub async fn measure<F, R>(&self, one: F, about: Value) -> Result<(), String>
    where
        F: Fn(String) -> R + Send + Sync + 'static,
        R: Future<Output = Result<usize, String>> + Send,
    {
        let one = Arc::new(one);
        self.lanes(&one, "warm", self.inflight).await?;
        let begun = Instant::now();
        let times = self.lanes(&one, "run", self.runs).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let millis = |quantile: usize| times[(times.len() - 1) * quantile / 100].as_secs_f64() * 1e3;
        let mut line = json!({
            "bench": "peers", "inflight": self.inflight, "runs": self.runs, "steps": self.steps,
            "seconds": seconds, "steps_per_s": f64::from(self.runs) * f64::from(self.steps) / seconds,
            "run_p50_ms": millis(50), "run_p99_ms": millis(99),
        });
        if let (Value::Object(line), Value::Object(about)) = (&mut line, about) {
            line.extend(about);
        }
        println!("{line}");
        Ok(())
    }

    /// The times of `runs` runs, from the shortest to the longest.
    async fn lanes<F, R>(&self, one: &Arc<F>, name: &str, runs: u32) -> Result<Vec<Duration>, String>
    where
        F: Fn(String) -> R + Send + Sync + 'static,
        R: Future<Output = Result<usize, String>> + Send,
    {
        let next = Arc::new(AtomicU32::new(0));
        let lane = || {
            let (one, next, name) = (Arc::clone(one), Arc::clone(&next), name.to_owned());
            let bytes = 100 * self.steps as usize;
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= runs {
                        return Ok::<_, String>(times);
                    }
                    let begun = Instant::now();
                    let got = one(format!("{name}-{number}")).await?;
                    if got != bytes {
                        return Err(format!("a chain returned {got} bytes, not {bytes}"));
                    }
                    times.push(begun.elapsed());
                }
            })
        };
        let lanes: Vec<_> = (0..self.inflight).map(|_| lane()).collect();
        let mut times = Vec::new();
        for lane in lanes {
            times.extend(lane.await.map_err(|e| e.to_string())??);
        }
        times.sort_unstable();
        Ok(times)
    }
}

/// What a step returns: 100 bytes.
pub fn result_of(number: u32) -> String {
    format!("{number:0>100}")
}
