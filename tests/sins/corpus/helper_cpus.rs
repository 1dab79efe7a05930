//! The number of processors in a helper
//! how: indirect

use aether::prelude::*;

fn look() -> String {
    num_cpus::get().to_string()
}

#[workflow]
pub async fn helper_cpus(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
