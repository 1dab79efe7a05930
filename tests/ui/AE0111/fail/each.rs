#![deny(warnings)]

use std::collections::{HashMap, HashSet};

use aether::prelude::*;

#[step(effect = "read")]
async fn counts(_cx: &mut StepCx) -> Result<HashMap<String, u32>> {
    Ok(HashMap::new())
}

#[step(effect = "tool")]
async fn send(_cx: &mut StepCx, what: &str) -> Result<()> {
    let _ = what;
    Ok(())
}

fn names() -> HashSet<String> {
    HashSet::new()
}

#[workflow]
async fn sends(cx: &mut Cx) -> Result<usize> {
    let counted = counts(cx).await?;
    let kept = cx.each(counted.clone(), async |cx: &mut Cx, (name, _)| send(cx, &name).await).limit(4).await;
    let sent = cx.each(counted, async |cx: &mut Cx, (name, _)| send(cx, &name).await).await;
    let named = cx.each(names(), async |cx: &mut Cx, name: String| send(cx, &name).await).await;
    Ok(kept.len() + sent.len() + named.len())
}

#[workflow]
async fn in_place(cx: &mut Cx) -> Result<()> {
    for (name, _) in counts(cx).await? {
        send(cx, &name).await?;
    }
    Ok(())
}

fn main() {}
