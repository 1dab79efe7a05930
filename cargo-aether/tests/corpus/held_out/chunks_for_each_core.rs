//! Work that is cut into as many steps as there are cores
//! how: env

use aether::prelude::*;
use itertools::Itertools as _;

fn chunks(items: std::ops::Range<u64>) -> Vec<u64> {
    let size = 64_usize.div_ceil(num_cpus::get());
    items.chunks(size).into_iter().map(Iterator::sum).collect()
}

#[step(effect = "read")]
pub async fn chunks_for_each_core_add(cx: &mut StepCx, part: u64) -> Result<u64> {
    Ok(part)
}

#[workflow]
pub async fn chunks_for_each_core(cx: &mut Cx, _input: u64) -> Result<String> {
    let mut total = 0;
    for part in chunks(0..64) {
        total += chunks_for_each_core_add(cx, part).await?;
    }
    Ok(total.to_string())
}
