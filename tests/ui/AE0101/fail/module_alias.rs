use aether::prelude::*;

#[workflow_mod]
mod agent {
    use aether::prelude::*;
    use std::time::{Instant as Watch, SystemTime as Clock};

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<()> {
        let _ = (cx, Clock::now());
        Ok(())
    }

    #[step(effect = "read")]
    pub(crate) async fn look(cx: &mut StepCx) -> Result<()> {
        let _ = (cx, Watch::now());
        Ok(())
    }
}

fn main() {}
