#![deny(warnings)]

use std::collections::{BTreeMap, HashMap};

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

#[workflow]
async fn sends(cx: &mut Cx, names: Vec<String>) -> Result<usize> {
    let counted = counts(cx).await?.into_iter().collect::<BTreeMap<_, _>>();
    let sent = cx.each(counted, async |cx: &mut Cx, (name, _)| send(cx, &name).await).await;
    let named = cx.each(names.clone(), async |cx: &mut Cx, name| send(cx, &name).await).limit(2).await;
    let numbered = cx.each(names.clone().into_iter().enumerate(), async |cx: &mut Cx, (_, name)| send(cx, &name).await);
    let numbered = numbered.await;
    let counted = cx.each(0..3, async |cx: &mut Cx, i: u32| send(cx, &i.to_string()).await).await;
    for name in counts(cx).await?.into_keys().collect::<std::collections::BTreeSet<_>>() {
        send(cx, &name).await?;
    }
    for (i, name) in names.iter().zip("ab".chars()).skip(1) {
        send(cx, &format!("{i}{name}")).await?;
    }
    for c in String::from("abc").chars() {
        send(cx, &c.to_string()).await?;
    }
    Ok(sent.len() + named.len() + numbered.len() + counted.len())
}

#[workflow(allow(hash, reason = "each entry is a step of its own, and all are sent"))]
async fn allowed(cx: &mut Cx) -> Result<usize> {
    let counted = counts(cx).await?;
    Ok(cx.each(counted, async |cx: &mut Cx, (name, _)| send(cx, &name).await).await.len())
}

fn main() {}
