use aether::prelude::*;

const NAME: &str = "use-baz";
const NEWEST: u32 = 2;

#[workflow]
async fn flow(cx: &mut Cx, name: String, newest: u32) -> Result<u32> {
    cx.version(NAME, 1..=2).await;
    cx.version(&name, 1..=2).await;
    cx.version("", 1..=2).await;
    cx.version("use baz", 1..=2).await;
    cx.version("newest", 1..=newest).await;
    cx.version("constant", 1..=NEWEST).await;
    cx.version("open", 1..2).await;
    cx.version("zero", 0..=2).await;
    cx.version("reversed", 2..=1).await;
    cx.version_each("each", 1..=newest).await;
    let asked = cx.version("kept", 3..=newest);
    Ok(asked.await)
}

#[workflow]
async fn in_branches(cx: &mut Cx, newest: u32) -> Result<()> {
    cx.join((
        async |inner: &mut Cx| inner.version("left", 1..=newest).await,
        async |inner: &mut Cx| Cx::version(inner, "right", 1..=newest).await,
    ))
    .await;
    Ok(())
}

fn main() {}
