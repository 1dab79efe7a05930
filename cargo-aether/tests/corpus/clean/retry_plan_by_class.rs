//! What to do about answers of a step, decided by a helper
//! how: clean

use std::collections::HashSet;
use std::time::Duration;

use aether::prelude::*;

#[derive(Debug)]
enum Verdict {
    Accept,
    Wait(Duration),
    GiveUp(&'static str),
}

#[step(effect = "read")]
pub async fn retry_plan_by_class_probe(_cx: &mut StepCx, attempt: u32) -> Result<u16> {
    Ok(if attempt < 2 { 503 } else { 200 })
}

fn verdict(status: u16, attempt: u32, jitter: u64) -> Verdict {
    let transient: HashSet<u16> = [408, 425, 429, 500, 502, 503, 504].into_iter().collect();
    match status {
        200..300 => Verdict::Accept,
        status if transient.contains(&status) && attempt < 5 => {
            let base = Duration::from_millis(100) * (1 << attempt);
            Verdict::Wait(base + Duration::from_millis(jitter % 50))
        }
        400..500 => Verdict::GiveUp("refused"),
        _ => Verdict::GiveUp("broken"),
    }
}

#[workflow]
pub async fn retry_plan_by_class(cx: &mut Cx, _input: u64) -> Result<String> {
    let jitter = cx.random().await;
    let mut waited = Duration::ZERO;
    for attempt in 0..8 {
        let status = retry_plan_by_class_probe(cx, attempt).await?;
        match verdict(status, attempt, jitter) {
            Verdict::Accept => return Ok(format!("accepted after {waited:?}")),
            Verdict::Wait(delay) => {
                cx.sleep(delay).await;
                waited += delay;
            }
            Verdict::GiveUp(reason) => return Ok(reason.to_owned()),
        }
    }
    Ok("never".to_owned())
}
