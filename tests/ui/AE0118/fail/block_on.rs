use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx, receiver: u8) -> Result<()> {
    let _ = &cx;
    futures_util::executor::block_on(async {});
    tokio::runtime::Handle::current().block_on(async {});
    let _ = receiver.recv_timeout(std::time::Duration::ZERO);
    Ok(())
}

fn main() {}
