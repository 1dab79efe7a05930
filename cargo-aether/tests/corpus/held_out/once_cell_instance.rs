//! The id of this instance, drawn when it is first asked for
//! how: random

use aether::prelude::*;

mod identity {
    use once_cell::sync::Lazy;

    static INSTANCE: Lazy<uuid::Uuid> = Lazy::new(uuid::Uuid::new_v4);

    pub fn instance() -> String {
        INSTANCE.simple().to_string()
    }
}

#[workflow]
pub async fn once_cell_instance(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(identity::instance())
}
