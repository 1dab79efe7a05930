use aether::prelude::*;

trait Mailer: Send + Sync + 'static {
    fn send(&self, to: &str);
}

struct FileMailer;

impl Mailer for FileMailer {
    fn send(&self, _to: &str) {}
}

#[step(effect = "tool")]
async fn notify<M: Mailer>(cx: &mut StepCx, to: &str) -> Result<()> {
    cx.dep::<M>()?.send(to);
    Ok(())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    notify::<FileMailer>(cx, "ann").await?;
    Ok(())
}

fn main() {}
