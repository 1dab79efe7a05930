//! Steps that sins use.

use std::cell::Cell;
use std::collections::HashMap;

use aether::prelude::*;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn no_stub<T>() -> Result<T> {
    Err(Failure::permanent("this step has a stub"))
}

/// Count words.
#[step(effect = "read")]
pub async fn count(_cx: &mut StepCx, _words: u64) -> Result<HashMap<String, u64>> {
    no_stub()
}

/// Weigh a word.
#[step(effect = "read")]
pub async fn weigh(_cx: &mut StepCx, _word: &str) -> Result<u64> {
    no_stub()
}

/// Draw from the thread's generator, which seeds it.
#[step(effect = "read")]
pub async fn seed(_cx: &mut StepCx) -> Result<u64> {
    Ok(drawn())
}

fn drawn() -> u64 {
    rand::random()
}

/// Claim to be pure, and count.
#[step(effect = "pure")]
pub async fn counted(by: u64) -> Result<u64> {
    Ok(calls(by))
}

fn calls(by: u64) -> u64 {
    CALLS.replace(CALLS.get() + by)
}
