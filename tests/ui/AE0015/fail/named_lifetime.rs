use aether::prelude::*;

#[step(effect = "read")]
async fn fetch<'a>(cx: &mut StepCx, id: &'a str) -> Result<String> {
    let _ = cx;
    Ok(id.to_owned())
}

fn main() {}
