//! A task that a trait object starts, and whether it is done
//! how: spawn

use std::future::Future;
use std::pin::Pin;

use aether::prelude::*;

type Work = Pin<Box<dyn Future<Output = u64> + Send>>;

trait Executor {
    fn execute(&self, work: Work) -> bool;
}

struct Background;

impl Executor for Background {
    fn execute(&self, work: Work) -> bool {
        let task = tokio::spawn(work);
        let _other: u64 = (0..100_000).map(std::hint::black_box).sum();
        task.is_finished()
    }
}

fn executor() -> Box<dyn Executor> {
    Box::new(Background)
}

#[workflow]
pub async fn task_is_finished(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(executor().execute(Box::pin(async { 7 })).to_string())
}
