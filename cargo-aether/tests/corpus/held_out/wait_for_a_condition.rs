//! A wait for a condition that may time out
//! how: blocking

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use aether::prelude::*;

struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

static GATE: Gate = Gate { open: Mutex::new(false), changed: Condvar::new() };

impl Gate {
    fn passes(&self) -> bool {
        let open = self.open.lock().expect("the lock");
        let (open, _) = self.changed.wait_timeout(open, Duration::from_millis(2)).expect("the lock");
        *open
    }

    fn leave_open(&self) {
        *self.open.lock().expect("the lock") = true;
        self.changed.notify_all();
    }
}

fn look() -> String {
    let passed = GATE.passes();
    GATE.leave_open();
    passed.to_string()
}

#[workflow]
pub async fn wait_for_a_condition(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
