use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use futures_util::future::{self, join_all as all};
    let _ = all(Vec::<std::future::Ready<()>>::new());
    let _ = future::select(async {}, async {});
    let _ = futures_util::stream::FuturesUnordered::<std::future::Ready<()>>::new();
    let _ = std::future::poll_fn(|_| std::task::Poll::Ready(()));
    Ok(())
}

fn main() {}
