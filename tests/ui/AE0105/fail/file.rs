use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, std::fs::read_to_string("a.txt"));
    Ok(())
}

#[step(effect = "pure")]
async fn length() -> Result<usize> {
    Ok(std::fs::read("a.txt")?.len())
}

fn main() {}
