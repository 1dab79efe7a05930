#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: String) -> Result<String> {
    let _ = cx;
    Ok(id)
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<Vec<String>> {
    let names: Vec<String> = vec![cx.run_id().to_string()];
    cx.each(names, async |branch: &mut Cx, id| {
        let cx = branch;
        fetch(cx, id).await.map_err(Failure::from)
    })
    .await
    .into_iter()
    .collect()
}

fn main() {}
