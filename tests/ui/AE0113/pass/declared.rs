#![deny(warnings)]

use aether::prelude::*;

macro_rules! double {
    ($e:expr) => {
        $e.wrapping_mul(2)
    };
}

macro_rules! or_return {
    ($e:expr, $otherwise:expr) => {
        match $e {
            Some(value) => value,
            None => return Ok($otherwise),
        }
    };
}

#[workflow(macros(double, or_return))]
async fn flow(cx: &mut Cx, first: Option<u64>) -> Result<u64> {
    let first = or_return!(first, cx.random().await);
    Ok(double!(cx.random().await) ^ first)
}

#[workflow(allow(macro, reason = "plain arithmetic"))]
async fn other(cx: &mut Cx) -> Result<u64> {
    let _ = cx;
    Ok(double!(2_u64))
}

fn main() {}
