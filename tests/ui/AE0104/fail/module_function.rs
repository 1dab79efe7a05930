use aether::prelude::*;

#[workflow_mod]
mod agent {
    use aether::prelude::*;
    use std::env::{self as surroundings, var};

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<()> {
        let _ = (cx, var("HOME"), surroundings::vars().count());
        Ok(())
    }
}

fn main() {}
