//! The number of frames above a helper
//! how: backtrace

use aether::prelude::*;

mod depth {
    use std::backtrace::Backtrace;

    pub trait Depth {
        fn depth(&self) -> usize {
            Backtrace::force_capture().to_string().lines().count()
        }
    }

    impl Depth for str {}
}

use depth::Depth as _;

fn look() -> String {
    "order".depth().to_string()
}

#[workflow]
pub async fn forced_backtrace(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
