use aether::prelude::*;

#[workflow]
async fn flow<Clock>(cx: &mut Cx, id: u64) -> Result<u64>
where
    Clock: Send + Sync + 'static,
{
    let _ = cx;
    Ok(id)
}

#[step(effect = "read")]
async fn look<T>(cx: &mut StepCx) -> Result<u64> {
    Ok(u64::from(cx.attempt()))
}

fn main() {}
