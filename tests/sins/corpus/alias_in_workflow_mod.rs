//! An alias that `workflow_mod` can see
//! how: direct

use aether::prelude::*;

pub use flow::alias_in_workflow_mod;

#[aether::workflow_mod]
mod flow {
    use std::time::SystemTime as Clock;

    use aether::prelude::*;

    #[workflow]
    pub async fn alias_in_workflow_mod(cx: &mut Cx, _input: u64) -> Result<String> {
        cx.random().await;
        Ok(format!("{:?}", Clock::now()))
    }
}
