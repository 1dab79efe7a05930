//! The clock, by way of the timestamp that a UUID would get
//! how: clock

use aether::prelude::*;

fn look() -> String {
    let context = uuid::ContextV7::new();
    let stamp = uuid::Timestamp::now(&context);
    let (seconds, nanos) = stamp.to_unix();
    format!("{seconds}.{nanos}")
}

#[workflow]
pub async fn uuid_context(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
