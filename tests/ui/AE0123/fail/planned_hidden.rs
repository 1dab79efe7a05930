use aether::prelude::*;

#[step(effect = "read")]
async fn look(cx: &mut StepCx, place: &str) -> Result<u64> {
    let _ = place;
    Ok(u64::from(cx.attempt()))
}

struct Tally(u32);

impl Tally {
    fn count(&mut self) {
        self.0 += 1;
    }
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u32> {
    let mut tally = Tally(0);
    cx.plan("route", async |cx: &mut Cx| {
        tally.count();
        look(cx, "a").await
    })
    .await?;
    Ok(tally.0)
}

fn main() {}
