#![deny(warnings)]

use aether::prelude::*;

fn sent(cx: &mut StepCx, to: &str) -> impl Future<Output = Result<Probe<u32>>> {
    let _ = (cx, to);
    async { Ok(Probe::Unknown) }
}

#[step(
    effect = "tool",
    retry(max_retries = 5, delay = "200ms", factor = 2.0, max_delay = "30s"),
    timeout = "30s",
    irreversible,
    idempotent,
    key = |to| to,
    on_unknown = "probe",
    probe = sent,
    name = "mail.send",
    allow(clock, uuid, reason = "used for a log line only")
)]
async fn send(cx: &mut StepCx, to: &str) -> Result<u32> {
    let _ = (cx, to, std::time::Instant::now());
    Ok(1)
}

#[workflow(name = "mail", version = 3, crate = "::aether")]
async fn mail(cx: &mut Cx, to: String) -> Result<u32> {
    Ok(send(cx, &to).await?)
}

fn main() {}
