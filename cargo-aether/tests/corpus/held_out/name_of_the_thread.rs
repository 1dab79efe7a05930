//! The name of the thread that runs the workflow
//! how: thread

use aether::prelude::*;

struct Line<'a>(&'a str);

impl std::fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let thread = std::thread::current();
        write!(out, "[{}] {}", thread.name().unwrap_or("unnamed"), self.0)
    }
}

#[workflow]
pub async fn name_of_the_thread(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(Line("accepted").to_string())
}
