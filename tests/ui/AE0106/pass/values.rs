#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = (reqwest::StatusCode::OK, reqwest::Method::GET, reqwest::header::ACCEPT);
    let _ = reqwest::Url::parse("http://localhost");
    let _ = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    Ok(())
}

fn main() {}
