//! Addresses of the network that are parsed and compared
//! how: clean

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use aether::prelude::*;

struct Net {
    base: u32,
    mask: u32,
}

impl std::str::FromStr for Net {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let (base, bits) = text.split_once('/').ok_or("no slash")?;
        let bits: u32 = bits.parse()?;
        let mask = u32::MAX.checked_shl(32_u32.checked_sub(bits).ok_or("too many bits")?).unwrap_or(0);
        Ok(Self { base: base.parse::<Ipv4Addr>()?.to_bits() & mask, mask })
    }
}

impl Net {
    fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => address.to_bits() & self.mask == self.base,
            IpAddr::V6(_) => false,
        }
    }
}

#[workflow]
pub async fn ip_addresses(cx: &mut Cx, _input: u64) -> Result<String> {
    let last = cx.random().await as u8;
    let net: Net = "10.1.2.0/25".parse()?;
    let address = Ipv4Addr::new(10, 1, 2, last);
    let socket: SocketAddr = "[::1]:8080".parse()?;
    let mapped = IpAddr::V6(address.to_ipv6_mapped());
    Ok(format!("{} {mapped} {socket} {}", net.contains(mapped), socket.ip() == Ipv6Addr::LOCALHOST))
}
