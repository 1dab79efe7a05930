//! A future of its own that is polled until it is ready
//! how: clean

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use aether::prelude::*;
use futures::FutureExt;

struct Countdown(u32);

impl Future for Countdown {
    type Output = &'static str;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.0 == 0 {
            return Poll::Ready("done");
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

fn polls(count: u32) -> (u32, String) {
    let mut future = pin!(async move {
        let first = Countdown(count).await;
        let second = Countdown(2).await;
        format!("{first} {second}")
    });
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 1;
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(text) => return (polls, text),
            Poll::Pending => polls += 1,
        }
    }
}

fn at_once() -> Option<u8> {
    async { 7 }.now_or_never()
}

#[workflow]
pub async fn future_polled_by_hand(cx: &mut Cx, _input: u64) -> Result<String> {
    let polled = polls((cx.random().await % 20) as u32);
    Ok(format!("{polled:?} {:?}", at_once()))
}
