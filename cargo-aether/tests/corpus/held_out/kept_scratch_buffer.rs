//! A buffer of the thread that nobody empties
//! how: thread_local

use std::cell::RefCell;
use std::fmt::Write as _;

use aether::prelude::*;

thread_local! {
    static SCRATCH: RefCell<String> = RefCell::default();
}

fn render(order: u64) -> String {
    SCRATCH.with_borrow_mut(|text| {
        let _written = write!(text, "order {order};");
        text.clone()
    })
}

#[workflow]
pub async fn kept_scratch_buffer(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(render(7))
}
