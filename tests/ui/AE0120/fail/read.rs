use aether::prelude::*;

#[step(effect = "read")]
async fn act(cx: &mut StepCx) -> Result<()> {
    let _ = &cx;
    use reqwest as web;
    let _ = web::get("http://localhost").await?;
    let _ = ureq::get("http://localhost");
    Ok(())
}

fn main() {}
