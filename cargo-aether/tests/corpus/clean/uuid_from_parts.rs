//! Ids that are parsed or put together from values of the context
//! how: clean

use aether::prelude::*;
use uuid::{Builder, Uuid};

fn sortable(millis: u64, random: u64) -> Uuid {
    let mut tail = [0_u8; 10];
    tail[..8].copy_from_slice(&random.to_be_bytes());
    Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
}

fn short(text: &str) -> Option<String> {
    let id = Uuid::parse_str(text).ok().filter(|id| !id.is_nil())?;
    Some(id.simple().to_string()[..8].to_owned())
}

#[workflow]
pub async fn uuid_from_parts(cx: &mut Cx, _input: u64) -> Result<String> {
    let now = cx.now().await;
    let random = cx.random().await;
    let drawn = cx.uuid().await;
    let id = sortable(now.as_millisecond() as u64, random);
    let shorts = ["urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8", "nothing"].map(short);
    Ok(format!("{id} {} {shorts:?} {}", drawn.braced(), id < drawn))
}
