#![deny(warnings)]

use aether::prelude::*;

#[workflow(allow(blocking, reason = "branches count together, never across an await"))]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let shared = std::sync::Mutex::new(3);
    let _ = shared.lock().map(|value| *value).unwrap_or_default();
    Ok(())
}

fn main() {}
