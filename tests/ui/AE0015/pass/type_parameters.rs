#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "read")]
async fn fetch<T: Clone + Sync, const N: usize>(cx: &mut StepCx, item: &T, name: impl std::fmt::Display) -> Result<Vec<T>> {
    let _ = (cx, name.to_string());
    Ok(vec![item.clone(); N])
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<Vec<u32>> {
    Ok(fetch::<u32, 3, String>(cx, &7, String::new()).await?)
}

fn main() {}
