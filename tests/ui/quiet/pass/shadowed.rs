#![deny(warnings)]

use aether::prelude::*;

#[allow(dead_code)]
mod std {}
#[allow(dead_code)]
mod core {}
#[allow(dead_code)]
struct Box;
#[allow(dead_code)]
enum Option {}

#[step(effect = "tool", key = |args| args)]
async fn send(cx: &mut StepCx, args: u32, error: u32, decoder: u32, scope: u32) -> Result<u32> {
    let _ = cx;
    Result::Ok(args + error + decoder + scope)
}

#[workflow]
async fn flow(context: &mut Cx, cx: u32, args: u32, scope: u32) -> Result<u32> {
    Result::Ok(send(context, args, cx, scope, 3).await?)
}

fn main() {}
