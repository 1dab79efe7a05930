use std::sync::Arc;

use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

#[workflow]
async fn bounded(cx: &mut Cx, places: Vec<String>) -> Result<usize> {
    let gate = Arc::new(tokio::sync::Semaphore::new(8));
    let found = cx.each(places, async |cx: &mut Cx, place: String| {
        let _permit = gate.try_acquire();
        look(cx, &place).await.is_ok()
    });
    Ok(found.await.len())
}

fn main() {}
