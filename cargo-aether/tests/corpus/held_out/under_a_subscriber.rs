//! The wall clock in a closure that runs under another subscriber of the log
//! how: clock

use aether::prelude::*;

fn stamp() -> String {
    let nobody = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::with_default(nobody, || format!("{:?}", std::time::SystemTime::now()))
}

#[workflow]
pub async fn under_a_subscriber(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(stamp())
}
