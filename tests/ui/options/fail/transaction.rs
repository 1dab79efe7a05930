use aether::prelude::*;

#[step(
    effect = "transaction",
    irreversible,
    idempotent,
    key = |seat| seat,
    on_unknown = "ask",
    approval = "required",
    heartbeat = "1s",
)]
async fn book(cx: &mut StepCx, seat: u32) -> Result<()> {
    let _ = (cx, seat);
    Ok(())
}

#[step(effect = "transaction")]
async fn wander(cx: &mut StepCx) -> Result<u64> {
    let _ = std::time::Instant::now();
    let _ = uuid::Uuid::new_v4();
    let _ = std::fs::read("seats");
    let answer = cx.http().get("http://localhost").send().await?;
    let _ = answer;
    Ok(cx.random())
}

fn main() {}
