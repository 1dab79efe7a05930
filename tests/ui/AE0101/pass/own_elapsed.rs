#![deny(warnings)]

#[aether::workflow_mod]
mod agent {
    use aether::prelude::*;

    pub(crate) struct Era(u32);

    impl Era {
        const UNIX_EPOCH: Self = Self(3);

        fn years(&self) -> u32 {
            self.0
        }
    }

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<u32> {
        let elapsed = cx.now().await.duration_since(jiff::Timestamp::UNIX_EPOCH);
        let since = std::time::SystemTime::UNIX_EPOCH.duration_since(std::time::UNIX_EPOCH);
        let _ = (elapsed, since);
        Ok(Era::UNIX_EPOCH.years())
    }
}

fn main() {}
