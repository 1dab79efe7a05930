//! The trait that resolves names, asked about numbers only
//! how: clean

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};

use aether::prelude::*;

fn peers(ports: &[u16]) -> std::io::Result<Vec<SocketAddr>> {
    let mut peers = Vec::new();
    for port in ports {
        peers.extend((Ipv4Addr::new(192, 0, 2, 7), *port).to_socket_addrs()?);
    }
    let fixed = [SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9)].map(SocketAddr::V4);
    peers.extend(fixed.as_slice().to_socket_addrs()?);
    Ok(peers)
}

#[workflow]
pub async fn socket_addrs_of_numbers(cx: &mut Cx, _input: u64) -> Result<String> {
    let port = cx.random().await as u16;
    let peers = peers(&[port, 443])?;
    Ok(format!("{peers:?}"))
}
