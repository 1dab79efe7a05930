#![deny(warnings)]

use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, std::net::Ipv4Addr::LOCALHOST);
    Ok(())
}

fn main() {}
