use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use rand::{random as dice, rngs::OsRng as Os};
    let _: u8 = dice();
    let _ = Os;
    Ok(())
}

fn main() {}
