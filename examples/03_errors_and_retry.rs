//! Errors: a type of your own, which errors are retried, and what the workflow sees.
//!
//! Run: `cargo run --example 03_errors_and_retry`.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use aether::error::{Classify, FailureClass};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

/// An error of your own: recordable, readable, and it says what may be retried.
#[derive(Debug, Serialize, Deserialize)]
enum LookupError {
    Busy,
    NoSuchUser(String),
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("the directory is busy"),
            Self::NoSuchUser(name) => write!(f, "there is no user {name}"),
        }
    }
}

impl std::error::Error for LookupError {}

impl Classify for LookupError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Busy => FailureClass::Retryable,
            Self::NoSuchUser(_) => FailureClass::Permanent,
        }
    }
}

/// How often the directory was asked.
#[derive(Default)]
struct Asked(AtomicU32);

/// Find a user. Three retries after the first attempt, 20 ms apart at first.
#[step(effect = "read", retry(max_retries = 3, delay = "20ms"))]
async fn look_up(cx: &mut StepCx, name: &str, busy: u32) -> Result<String, LookupError> {
    let Ok(asked) = cx.dep::<Asked>() else { return Err(LookupError::Busy) };
    println!("  attempt {} for {name}", cx.attempt());
    match name {
        "nobody" => Err(LookupError::NoSuchUser(name.into())),
        _ if asked.0.fetch_add(1, Ordering::Relaxed) < busy => Err(LookupError::Busy),
        _ => Ok(format!("{name}@example.org")),
    }
}

/// Look up a user, and handle what goes wrong.
#[workflow]
async fn find(cx: &mut Cx, name: String, busy: u32) -> Result<String> {
    Ok(match look_up(cx, &name, busy).await {
        Ok(address) => address,
        Err(StepError::App(error)) => format!("not retried: {error}"),
        Err(StepError::Exhausted(error)) => format!("given up after the last attempt: {error}"),
        Err(other) => return Err(other.into()),
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    for (name, busy) in [("ada", 2), ("nobody", 0), ("grace", 99)] {
        let engine = Engine::builder().memory().provide(Asked::default()).start().await?;
        let run = engine.start::<find>((name.to_owned(), busy)).await?;
        println!("{name}: {}", run.result().await?);
    }
    Ok(())
}
