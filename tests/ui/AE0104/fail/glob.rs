use aether::prelude::*;

#[workflow_mod]
mod agent {
    use aether::prelude::*;
    use std::env::*;

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<()> {
        let _ = (cx, var("HOME"));
        Ok(())
    }
}

fn main() {}
