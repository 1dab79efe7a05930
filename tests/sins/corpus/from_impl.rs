//! The wall clock in an implementation of From
//! how: indirect

use aether::prelude::*;

struct Stamped(std::time::SystemTime);

impl From<u64> for Stamped {
    fn from(_: u64) -> Self {
        Self(std::time::SystemTime::now())
    }
}

#[workflow]
pub async fn from_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    let stamped: Stamped = number.into();
    Ok(format!("{:?}", stamped.0))
}
