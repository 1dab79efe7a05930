//! The machine's name, read from a file by lazy_static
//! how: fs

use aether::prelude::*;

lazy_static::lazy_static! {
    static ref HOST: String = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
}

fn look() -> String {
    HOST.trim().to_owned()
}

#[workflow]
pub async fn lazy_static_host(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
