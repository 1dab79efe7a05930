use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _: u32 = rand::random();
    let _ = rand::rng();
    let _ = fastrand::u32(..);
    let _ = getrandom::fill(&mut [0; 4]);
    let _ = thread_rng();
    let _ = StdRng::from_os_rng();
    Ok(())
}

fn main() {}
