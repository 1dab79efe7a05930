#![deny(warnings)]

use aether::prelude::*;

#[workflow(allow(clock, env, reason = "for the log"))]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = (cx, std::env::var("A"));
    Ok(())
}

fn main() {
    let allows = <flow as aether::definition::Workflow>::DEF.allows;
    assert_eq!(allows.len(), 2);
    assert_eq!((allows[0].what, allows[0].reason), ("clock", "for the log"));
}
