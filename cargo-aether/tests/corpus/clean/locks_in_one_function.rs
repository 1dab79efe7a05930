//! Mutexes that never leave a function
//! how: clean

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use aether::prelude::*;

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, text: impl std::fmt::Display) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_string());
    }

    fn finish(self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn collect(seed: u64) -> String {
    let recorder = Recorder::default();
    let other = recorder.clone();
    let limit = RwLock::new(10_u64);
    let fast = parking_lot::Mutex::new(0_u64);
    for n in 0..5 {
        let value = (seed >> (8 * n)) % 16;
        if value > *limit.read().unwrap_or_else(PoisonError::into_inner) {
            *limit.write().unwrap_or_else(PoisonError::into_inner) += 1;
            other.note(value);
        }
        *fast.lock() += value;
    }
    drop(other);
    format!("{:?} {:?} {}", recorder.finish(), limit.into_inner().ok(), fast.into_inner())
}

#[workflow]
pub async fn locks_in_one_function(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(collect(cx.random().await))
}
