#![deny(warnings)]

use aether::prelude::*;

#[step(effect = "tool", approval = |cents, to: &str| *cents > 10_000 && to != "house", compensate = refund)]
async fn pay(cx: &mut StepCx, to: &str, cents: u64) -> Result<String> {
    let _ = (cx, cents);
    Ok(to.to_owned())
}

#[step(effect = "tool", idempotent, approval = "required")]
async fn refund(cx: &mut StepCx, to: &str, cents: u64, receipt: Option<String>) -> Result<()> {
    let _ = (cx, to, cents, receipt);
    Ok(())
}

mod doors {
    use aether::prelude::*;

    #[step(effect = "tool")]
    pub(super) async fn close(cx: &mut StepCx, opened: Option<u32>) -> Result<()> {
        let _ = (cx, opened);
        Ok(())
    }
}

struct House;

#[workflow]
impl House {
    #[step(effect = "tool", compensate = doors::close)]
    async fn open(cx: &mut StepCx) -> Result<u32> {
        let _ = cx;
        Ok(1)
    }

    #[step(effect = "http", compensate = Self::unlock)]
    async fn lock(cx: &mut StepCx, door: u32) -> Result<()> {
        let _ = (cx, door);
        Ok(())
    }

    fn is_front(door: u32) -> bool {
        door == 1
    }

    async fn was_unlocked(cx: &mut StepCx, door: u32, locked: Option<()>) -> Result<Probe<()>> {
        let _ = (cx, door, locked);
        Ok(Probe::DidNotHappen)
    }

    #[step(
        effect = "tool",
        compensate = House::lock_again,
        approval = |door| Self::is_front(*door),
        probe = Self::was_unlocked,
    )]
    async fn unlock(cx: &mut StepCx, door: u32, locked: Option<()>) -> Result<()> {
        let _ = (cx, door, locked);
        Ok(())
    }

    #[step(effect = "tool")]
    async fn lock_again(cx: &mut StepCx, door: u32, locked: Option<()>, unlocked: Option<()>) -> Result<()> {
        let _ = (cx, door, locked, unlocked);
        Ok(())
    }
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    pay(cx, "a", 5).await?;
    House::open(cx).await?;
    Ok(House::lock(cx, 1).await?)
}

fn main() {}
