use aether::prelude::*;

struct Agent;

#[workflow]
impl Agent {
    #[workflow]
    async fn triage(&self, cx: &mut Cx) -> Result<()> {
        let _ = cx;
        Ok(())
    }
}

fn main() {}
