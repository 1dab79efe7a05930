//! Settings that are read from the environment once and kept
//! how: env

use std::sync::OnceLock;

use aether::prelude::*;

struct Settings {
    limit: u32,
}

impl Settings {
    fn get() -> &'static Settings {
        static CELL: OnceLock<Settings> = OnceLock::new();
        CELL.get_or_init(|| Settings {
            limit: std::env::var("LIMIT").ok().and_then(|text| text.parse().ok()).unwrap_or(10),
        })
    }
}

#[workflow]
pub async fn settings_once(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Settings::get().limit.to_string())
}
