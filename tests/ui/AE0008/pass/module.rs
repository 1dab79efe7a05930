#![deny(warnings)]

use aether::prelude::*;

mod mail {
    use super::*;

    /// Sends.
    #[step(effect = "tool")]
    pub async fn send(cx: &mut StepCx) -> Result<()> {
        let _ = cx;
        Ok(())
    }
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    Ok(mail::send(cx).await?)
}

fn main() {}
