//! Headers and a status without a request
//! how: clean

use aether::prelude::*;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};

fn headers(token: u64) -> std::result::Result<HeaderMap, Box<dyn std::error::Error + Send + Sync>> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(AUTHORIZATION, format!("Bearer {token:x}").parse()?);
    headers.append(HeaderName::from_static("x-tag"), HeaderValue::from_static("b"));
    headers.append("x-tag".parse::<HeaderName>()?, HeaderValue::from_static("a"));
    Ok(headers)
}

fn again(method: &Method, status: u16) -> bool {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    method.is_idempotent() && (status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS)
}

#[workflow]
pub async fn http_header_map(cx: &mut Cx, _input: u64) -> Result<String> {
    let headers = headers(cx.random().await)?;
    let mut text = String::new();
    for (name, value) in &headers {
        text += &format!("{name}: {}\n", value.to_str()?);
    }
    let tags = headers.get_all("x-tag").iter().count();
    Ok(format!("{text}{tags} {} {}", again(&Method::PUT, 503), again(&Method::POST, 503)))
}
