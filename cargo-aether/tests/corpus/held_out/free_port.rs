//! A port that the system gives away
//! how: net

use std::net::{Ipv4Addr, TcpListener};

use aether::prelude::*;

fn port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|socket| socket.local_addr())
        .map_or(0, |own| own.port())
}

#[workflow]
pub async fn free_port(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("http://localhost:{}/", port()))
}
