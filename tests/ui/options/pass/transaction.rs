#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "transaction", retry(max_retries = 2, jitter = 0.5), timeout = "5s", compensate = unbook)]
async fn book(cx: &mut StepCx, seat: u32) -> Result<String> {
    Ok(format!("{seat} at {} as {}", cx.now(), cx.uuid()))
}

#[step(effect = "transaction")]
async fn unbook(cx: &mut StepCx, seat: u32, booking: Option<&str>) -> Result<()> {
    let _ = (cx, seat, booking);
    Ok(())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<String> {
    Ok(book(cx, 7).await?)
}

fn main() {}
