//! A random id in an implementation of Default
//! how: indirect

use aether::prelude::*;

struct Ticket {
    id: String,
}

impl Default for Ticket {
    fn default() -> Self {
        Self { id: uuid::Uuid::new_v4().to_string() }
    }
}

#[workflow]
pub async fn default_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Ticket::default().id)
}
