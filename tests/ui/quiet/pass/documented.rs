//! Documented.
#![deny(warnings)]
#![deny(missing_docs, missing_debug_implementations, unreachable_pub, clippy::all, clippy::pedantic, clippy::nursery)]
#![forbid(unsafe_code)]

use aether::prelude::*;

/// Public.
pub mod public {
    use super::*;

    /// Fetches.
    #[step(effect = "read")]
    #[must_use = "it costs"]
    pub async fn fetch(cx: &mut StepCx, id: &str) -> Result<String> {
        let _ = cx;
        Ok(id.to_owned())
    }

    /// Flows.
    #[workflow]
    pub async fn flow(cx: &mut Cx, id: String) -> Result<String> {
        Ok(fetch(cx, &id).await?)
    }
}

fn main() {}
