use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    futures_util::join!(async {}, async {});
    tokio::try_join!(async { Ok::<_, ()>(()) }, async { Ok::<_, ()>(()) });
    Ok(())
}

fn main() {}
