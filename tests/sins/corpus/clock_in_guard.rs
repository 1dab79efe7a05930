//! The clock in the guard of a match
//! how: direct

use aether::prelude::*;

#[workflow]
pub async fn clock_in_guard(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = cx.random().await;
    Ok(match number {
        0 => "zero".into(),
        n if std::time::SystemTime::now() > std::time::SystemTime::UNIX_EPOCH => format!("after {n}"),
        _ => format!("{:?}", std::time::Instant::now()),
    })
}
