use aether::prelude::*;

#[workflow_mod]
mod agent {
    use aether::prelude::*;
    use fastrand::*;

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<()> {
        let _ = (cx, alphanumeric());
        Ok(())
    }
}

fn main() {}
