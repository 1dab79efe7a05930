use aether::prelude::*;

struct Mailer;

#[step(effect = "tool", needs = Mailer)]
async fn one(_cx: &mut StepCx) -> Result<()> {
    Ok(())
}

#[step(effect = "tool", needs())]
async fn none(_cx: &mut StepCx) -> Result<()> {
    Ok(())
}

#[step(effect = "pure", needs(Mailer))]
async fn pure() -> Result<()> {
    Ok(())
}

fn main() {}
