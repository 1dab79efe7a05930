use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = cx;
    println!("here");
    let _ = dbg!(3);
    Ok(())
}

fn main() {}
