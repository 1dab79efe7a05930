#![deny(warnings)]
use aether::prelude::*;

#[workflow]
async fn walk(cx: &mut Cx, n: u64) -> Result<u64> {
    #![allow(unused_mut, unused_variables)]
    //! Counts down.
    let mut unused = 1;
    if n == 0 {
        return Ok(cx.random().await);
    }
    Box::pin(walk(cx, n - 1)).await
}

#[workflow]
async fn once(cx: &mut Cx) -> Result<u64> {
    let waiting = Box::new(cx.random()).await;
    Ok(waiting + Box::pin(cx.random()).await)
}

#[step(effect = "read")]
async fn look(_cx: &mut StepCx) -> Result<u64> {
    #![allow(unused_variables)]
    let unused = 1;
    Ok(2)
}

fn main() {}
