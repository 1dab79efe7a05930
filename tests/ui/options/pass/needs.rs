#![deny(warnings)]

use std::sync::Arc;

use aether::prelude::*;

struct Mailer;
struct Archive<T>(T);

trait Clock: Send + Sync {
    fn hour(&self) -> u8;
}

struct Noon;

impl Clock for Noon {
    fn hour(&self) -> u8 {
        12
    }
}

mod post {
    pub struct Office;
}

#[step(effect = "tool", needs(post::Office, Box<dyn Clock>))]
async fn send(cx: &mut StepCx, to: &str) -> Result<u8> {
    let _mailer = cx.dep::<Mailer>()?;
    let archive: Arc<Archive<Vec<u8>>> = cx.dep()?;
    let hour = format!("{}{}", to, cx.dep::<Box<dyn Clock>>().map_err(Failure::permanent)?.hour());
    let _ = (&archive.0, cx.provided::<Noon>());
    stamp(cx).await?;
    Ok(hour.len() as u8)
}

async fn stamp(cx: &mut StepCx) -> Result<()> {
    cx.dep::<post::Office>()?;
    Ok(())
}

#[step(effect = "read")]
async fn own_types(cx: &mut StepCx) -> Result<u8> {
    use post::Office as Desk;
    struct Inner;
    cx.dep::<Desk>()?;
    cx.dep::<Inner>()?;
    #[cfg(any())]
    let _nothing = cx.dep::<Missing>()?;
    #[cfg(any())]
    if true {
        cx.dep::<Missing>()?;
    }
    let _ = match 1_u8 {
        #[cfg(any())]
        1 => cx.dep::<Missing>()?.0,
        _ => 0,
    };
    let _ = [
        1,
        #[cfg(any())]
        cx.dep::<Missing>()?.0,
    ];
    let _ = Archive {
        #[cfg(any())]
        0: cx.dep::<Missing>()?.0,
        #[cfg(all())]
        0: 1,
    };
    let Ok(_mailer) = cx.dep::<Mailer>() else { return Ok(0) };
    Ok(1)
}

#[step(effect = "tool")]
async fn stored<T: aether::definition::Recordable + Sync>(cx: &mut StepCx, value: &T) -> Result<()> {
    let _ = (cx.dep::<Archive<T>>()?, value);
    Ok(())
}

struct Agent;

#[workflow]
impl Agent {
    #[step(effect = "read")]
    async fn ask(cx: &mut StepCx) -> Result<()> {
        cx.dep::<Self>()?;
        Ok(())
    }

    async fn run(cx: &mut Cx) -> Result<u8> {
        Self::ask(cx).await?;
        own_types(cx).await?;
        stored(cx, &3_u8).await?;
        Ok(send(cx, "ann").await?)
    }
}

fn main() {
    use aether::definition::Step;
    let names: Vec<&str> = send::NEEDS.iter().map(aether::engine::Need::type_name).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}
