//! Getters for settings that a macro has made
//! how: env

use aether::prelude::*;

macro_rules! settings {
    ($($name:ident = $key:literal or $default:literal;)*) => {
        $(fn $name() -> String {
            std::env::var($key).unwrap_or_else(|_| $default.to_owned())
        })*
    };
}

settings! {
    region = "SHOP_REGION" or "eu";
    currency = "SHOP_CURRENCY" or "EUR";
}

#[workflow]
pub async fn generated_getters(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{} {}", region(), currency()))
}
