use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use reqwest::Client as Http;
    let _ = Http::new();
    Ok(())
}

fn main() {}
