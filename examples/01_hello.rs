//! spike
use aether::prelude::*;

/// Look a word up.
#[step(effect = "tool")]
async fn look_up(cx: &mut StepCx, word: &str) -> Result<usize> {
    println!("{} {}", cx.idempotency_key(), word);
    Ok(word.len())
}
/// Read.
#[step(effect = "read")]
async fn read(cx: &mut StepCx, n: u64) -> Result<u64> {
    let _ = cx;
    Ok(n)
}

/// Inner.
#[workflow]
async fn inner(cx: &mut Cx, n: u64) -> Result<u64> {
    let a = read(cx, n).await?;
    let b = cx.random().await;
    Ok(a + (b % 2) * 0)
}

/// Measure a word.
#[workflow]
async fn measure(cx: &mut Cx, word: String) -> Result<usize> {
    let t = cx.now().await;
    let (a, b) = cx
        .join((
            async |cx: &mut Cx| look_up(cx, &word).await,
            async |cx: &mut Cx| {
                let x = read(cx, 3).await?;
                inner(cx, x).await
            },
        ))
        .await;
    let each = cx.each(0..5u64, async |cx: &mut Cx, n| inner(cx, n).await).limit(2).await;
    let won = cx.race((async |cx: &mut Cx| read(cx, 1).await, async |cx: &mut Cx| { cx.sleep(std::time::Duration::from_secs(3)).await; Ok(2) })).await?;
    cx.sleep(std::time::Duration::from_millis(1500)).await;
    let c = cx.child::<inner>(77).await?;
    let _ = (t, b?, each.len(), won, c);
    Ok(a?)
}

#[tokio::main]
async fn main() -> aether::Result<()> {
    let engine = Engine::builder().sqlite("/tmp/hello.db").start().await?;
    let run = engine.start::<measure>("aether".to_owned()).id("first").await?;
    println!("{}", run.result().await?);
    println!("{:?}", engine.verify(run.id()).await);
    for s in engine.view(run.id()).await?.steps { println!("{} {:?} {:?}", s.command, s.status, s.outcome); }
    engine.shutdown().await?;
    Ok(())
}
