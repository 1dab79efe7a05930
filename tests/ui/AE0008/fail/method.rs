use aether::prelude::*;

struct Mailer;

impl Mailer {
    #[step(effect = "tool")]
    async fn send(&self, cx: &mut StepCx) -> Result<()> {
        let _ = cx;
        Ok(())
    }
}

fn main() {}
