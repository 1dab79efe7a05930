use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, std::net::TcpStream::connect("127.0.0.1:1"));
    Ok(())
}

fn main() {}
