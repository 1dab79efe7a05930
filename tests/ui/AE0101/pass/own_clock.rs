#![deny(warnings)]

#[aether::workflow_mod]
mod agent {
    use aether::prelude::*;
    // An import alone is not judged.
    #[allow(unused_imports)]
    use std::time::SystemTime;

    /// A clock of its own, which counts.
    #[derive(Default)]
    pub(crate) struct Instant(u32);

    impl Instant {
        pub(crate) fn now(&mut self) -> u32 {
            self.0 += 1;
            self.0
        }
    }

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<u32> {
        let _ = cx;
        let mut instant = Instant::default();
        Ok(Instant::now(&mut instant))
    }
}

fn main() {}
