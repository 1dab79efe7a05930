//! The wall clock in an implementation of Serialize
//! how: indirect

use aether::prelude::*;

struct Stamp;

impl serde::Serialize for Stamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:?}", std::time::SystemTime::now()))
    }
}

#[workflow]
pub async fn serialize_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(serde_json::to_string(&Stamp)?)
}
