use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: u32) -> Result<String> {
    let _ = cx;
    Ok(id.to_string())
}

#[workflow]
async fn drawn(cx: &mut Cx) -> Result<()> {
    let a = cx.now();
    let b = cx.uuid();
    a.await;
    b.await;
    Ok(())
}

#[workflow]
async fn in_a_tuple(cx: &mut Cx) -> Result<()> {
    let (a, b) = (fetch(cx, 1), fetch(cx, 2));
    a.await?;
    b.await?;
    Ok(())
}

#[workflow]
async fn in_a_branch(cx: &mut Cx) -> Result<()> {
    cx.each(0..3, async |branch: &mut Cx, id| {
        let slow = fetch(branch, id);
        if branch.random().await > 3 {
            slow.await?;
        }
        Ok(())
    })
    .await
    .into_iter()
    .collect()
}

fn main() {}
