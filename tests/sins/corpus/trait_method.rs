//! The wall clock in a method of a trait
//! how: indirect

use aether::prelude::*;

trait Stamp {
    fn stamp(&self) -> String;
}

impl Stamp for u64 {
    fn stamp(&self) -> String {
        format!("{self} {:?}", std::time::SystemTime::now())
    }
}

#[workflow]
pub async fn trait_method(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    Ok(number.stamp())
}
