//! Settings in TOML whose missing field comes from the environment
//! how: env

use aether::prelude::*;

#[derive(serde::Deserialize)]
struct Settings {
    retries: u32,
    #[serde(default)]
    region: Region,
}

#[derive(serde::Deserialize)]
struct Region(String);

impl Default for Region {
    fn default() -> Self {
        Region(std::env::var("REGION").unwrap_or_else(|_| "eu-1".to_owned()))
    }
}

fn settings() -> Settings {
    toml::from_str("retries = 3").unwrap()
}

#[workflow]
pub async fn toml_default_from_env(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let settings = settings();
    Ok(format!("{} {}", settings.region.0, settings.retries))
}
