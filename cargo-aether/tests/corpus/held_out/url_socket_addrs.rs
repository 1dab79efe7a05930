//! The addresses of a URL's host
//! how: net

use aether::prelude::*;

fn addresses(text: &str) -> String {
    let Ok(url) = url::Url::parse(text) else { return String::new() };
    match url.socket_addrs(|| None) {
        Ok(found) => format!("{found:?}"),
        Err(error) => error.to_string(),
    }
}

#[workflow]
pub async fn url_socket_addrs(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(addresses("https://localhost/"))
}
