//! Batches that are drained from a map, a step for each
//! how: hash

use std::collections::HashMap;

use aether::prelude::*;

#[derive(Default)]
struct Outbox {
    waiting: HashMap<u64, Vec<String>>,
}

impl Outbox {
    fn put(&mut self, customer: u64, line: &str) {
        self.waiting.entry(customer).or_default().push(line.to_owned());
    }

    fn batches(&mut self) -> Vec<String> {
        self.waiting.drain().map(|(customer, lines)| format!("{customer}: {}", lines.join(" "))).collect()
    }
}

#[step(effect = "read")]
pub async fn drained_batches_send(cx: &mut StepCx, batch: &str) -> Result<u64> {
    Ok(batch.len() as u64)
}

#[workflow]
pub async fn drained_batches(cx: &mut Cx, _input: u64) -> Result<String> {
    let mut outbox = Outbox::default();
    for customer in 0..9 {
        outbox.put(customer, "hello");
    }
    let mut sent = 0;
    for batch in outbox.batches() {
        sent += drained_batches_send(cx, &batch).await?;
    }
    Ok(sent.to_string())
}
