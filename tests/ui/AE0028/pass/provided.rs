#![deny(warnings)]

use aether::prelude::*;

trait Mailer: Send + Sync + 'static {
    fn send(&self, to: &str) -> Result<()>;
}

struct FileMailer;

impl Mailer for FileMailer {
    fn send(&self, _to: &str) -> Result<()> {
        Ok(())
    }
}

#[step(effect = "tool")]
async fn notify(cx: &mut StepCx, to: &str) -> Result<()> {
    cx.dep::<Box<dyn Mailer>>()?.send(to)
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    notify(cx, "ann").await?;
    Ok(())
}

fn main() {
    let _builder = Engine::builder().provide::<Box<dyn Mailer>>(Box::new(FileMailer));
}
