#![deny(warnings)]

use aether::prelude::*;

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Limits {
    pages: u32,
}

struct Mailer;

#[step(effect = "tool")]
async fn mail(cx: &mut StepCx, pages: u32) -> Result<()> {
    let _: std::sync::Arc<Mailer> = cx.dep()?;
    let _ = pages;
    Ok(())
}

#[workflow]
async fn mails(cx: &mut Cx) -> Result<u32> {
    let limits = cx.config::<Limits>().await?;
    mail(cx, limits.pages).await?;
    Ok(limits.pages)
}

fn main() {}
