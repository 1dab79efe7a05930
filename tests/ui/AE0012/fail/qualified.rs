use aether::prelude::*;

#[step(effect = "read")]
async unsafe fn fetch(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[step(effect = "read")]
async extern "C" fn ask(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

fn main() {}
