//! What only the first call in a process does
//! how: static

use std::sync::Once;

use aether::prelude::*;

fn greeting(name: &str) -> String {
    static INTRODUCED: Once = Once::new();
    let mut text = format!("Hello {name}.");
    INTRODUCED.call_once(|| text.push_str(" I am the assistant."));
    text
}

#[workflow]
pub async fn first_call_only(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(greeting("Ada"))
}
