//! A fixed moment, written in the time zone of the machine
//! how: env

use aether::prelude::*;
use chrono::{DateTime, Local};

fn in_words(seconds: i64) -> String {
    let moment = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    moment.with_timezone(&Local).format("%d.%m.%Y %H:%M %:z").to_string()
}

#[workflow]
pub async fn local_offset_of_a_date(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(in_words(1_700_000_000))
}
