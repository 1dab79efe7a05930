//! The wall clock in a macro of one's own
//! how: indirect

use aether::prelude::*;

macro_rules! stamp {
    () => {
        format!("{:?}", std::time::SystemTime::now())
    };
}

#[workflow]
pub async fn user_macro(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(stamp!())
}
