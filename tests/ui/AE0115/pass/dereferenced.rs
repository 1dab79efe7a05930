#![deny(warnings)]

#[aether::workflow_mod]
mod agent {
    use aether::prelude::*;

    const LIMIT: &u32 = &3;
    static GREETING: &&str = &"hello";

    pub(crate) struct Plan;

    impl Plan {
        const STEPS: &'static [u32; 2] = &[1, 2];
        const FIRST: &'static u32 = &1;
    }

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<u32> {
        let _ = cx;
        const HALF: &u32 = &2;
        let most = *Plan::STEPS.iter().max().unwrap_or(LIMIT) + *Plan::FIRST + Plan::STEPS[0];
        Ok(*LIMIT / *HALF + most + u32::from(GREETING.is_empty()))
    }
}

fn main() {}
