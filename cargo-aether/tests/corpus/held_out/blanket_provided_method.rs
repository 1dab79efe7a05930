//! The clock in a provided method that every printable type gets
//! how: clock

use aether::prelude::*;

trait Stamped: std::fmt::Display {
    fn stamped(&self) -> String {
        let now = jiff::Zoned::now();
        format!("{} {self}", now.strftime("%F %T"))
    }
}

impl<T: std::fmt::Display + ?Sized> Stamped for T {}

#[workflow]
pub async fn blanket_provided_method(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok("accepted".stamped())
}
