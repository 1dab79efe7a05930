#![deny(warnings)]

#[aether::workflow_mod]
mod agent {
    use aether::prelude::*;

    const STEPS: &[&str] = &["plan", "act"];
    static GREETING: &str = "hello";

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<usize> {
        let _ = cx;
        let first = STEPS.first().copied().unwrap_or(GREETING);
        Ok(STEPS.iter().map(|step| step.len()).sum::<usize>() + first.len() + u32::MAX.count_ones() as usize)
    }
}

fn main() {}
