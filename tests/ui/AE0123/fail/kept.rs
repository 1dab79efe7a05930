use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

#[workflow]
async fn in_variables(cx: &mut Cx) -> Result<u64> {
    let tries = AtomicU32::new(0);
    let first = async |cx: &mut Cx| {
        tries.fetch_add(1, Ordering::Relaxed);
        look(cx, "a").await
    };
    let second = async |cx: &mut Cx| look(cx, "b").await;
    let found = cx.race((first, second)).await?;
    Ok(found + u64::from(tries.load(Ordering::Relaxed)))
}

#[workflow]
async fn in_blocks(cx: &mut Cx) -> Result<u64> {
    let (seen, known) = (Arc::new(Mutex::new(Vec::new())), Arc::new(RwLock::new(0)));
    let found = cx
        .race((
            {
                let seen = Arc::clone(&seen);
                async move |cx: &mut Cx| {
                    seen.lock().unwrap().push(1);
                    look(cx, "a").await
                }
            },
            async |cx: &mut Cx| {
                *known.write().unwrap() += 1;
                look(cx, "b").await
            },
        ))
        .await?;
    Ok(found + seen.lock().unwrap().len() as u64)
}

fn main() {}
