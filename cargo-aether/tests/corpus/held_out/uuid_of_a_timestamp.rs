//! A UUID built by hand from the time and fixed bytes
//! how: clock

use aether::prelude::*;

fn ordered_id(tail: &[u8; 10]) -> uuid::Uuid {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(since.as_millis() as u64, tail).into_uuid()
}

#[workflow]
pub async fn uuid_of_a_timestamp(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(ordered_id(&[7; 10]).to_string())
}
