#![deny(warnings)]

use aether::prelude::*;

fn main() {
    #[step(effect = "read")]
    async fn local(cx: &mut StepCx) -> Result<()> {
        let _ = cx;
        Ok(())
    }
    #[workflow]
    async fn flow(cx: &mut Cx) -> Result<()> {
        Ok(local(cx).await?)
    }
    let _ = local::tool();
}
