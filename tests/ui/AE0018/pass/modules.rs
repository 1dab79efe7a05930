#![deny(warnings)]

/// Agents.
#[aether::workflow_mod(allow(clock, reason = "for logs"), macros(twice))]
pub mod agents {
    use aether::prelude::*;
    use std::time::SystemTime as Clock;

    macro_rules! twice {
        ($e:expr) => {
            ($e, $e)
        };
    }

    /// Nested.
    pub mod deeper {
        use aether::prelude::*;

        /// Has no clock in sight.
        pub struct Clock;

        impl Clock {
            /// Not the time.
            #[must_use]
            pub fn now() -> u32 {
                3
            }
        }

        /// Flows.
        #[workflow]
        pub async fn flow(cx: &mut Cx) -> Result<u32> {
            let _ = cx;
            Ok(Clock::now())
        }
    }

    /// Flows.
    #[workflow]
    pub async fn flow(cx: &mut Cx) -> Result<bool> {
        let (a, b) = twice!(cx.random().await);
        Ok(a == b && Clock::now() > Clock::UNIX_EPOCH && deeper::flow(cx).await? == 3)
    }

    /// A type with workflows.
    pub struct Agent;

    #[workflow]
    impl Agent {
        /// Flows.
        pub async fn run(cx: &mut Cx) -> Result<bool> {
            flow(cx).await
        }
    }
}

fn main() {}
