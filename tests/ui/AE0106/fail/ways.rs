use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = std::net::TcpStream::connect("a:1");
    let _ = reqwest::get("http://a");
    let _ = reqwest::Client::new();
    let _ = "a:1".to_socket_addrs();
    let _ = sqlx::query("select 1");
    let _ = sqlx::query!("select 1");
    Ok(())
}

fn main() {}
