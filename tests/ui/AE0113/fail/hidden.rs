use aether::prelude::*;

macro_rules! later {
    ($($tokens:tt)*) => { $($tokens)* };
}

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: u32) -> Result<String> {
    let _ = cx;
    Ok(id.to_string())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<String> {
    tracing::info!("{}", fetch(cx, 1).await?);
    let text = later!(fetch(cx, 2).await?);
    Ok(text)
}

fn main() {}
