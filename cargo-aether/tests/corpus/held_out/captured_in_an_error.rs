//! An error that captures where it was made, if the environment says so
//! how: backtrace

use std::backtrace::Backtrace;

use aether::prelude::*;

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Fault {
    message: String,
    trace: String,
}

impl Fault {
    fn new(message: &str) -> Self {
        let trace = Backtrace::capture();
        Fault { message: message.to_owned(), trace: format!("{:?} {trace}", trace.status()) }
    }
}

fn parse(text: &str) -> std::result::Result<u32, Fault> {
    text.parse().map_err(|_| Fault::new("not a number"))
}

fn look() -> String {
    parse("seven").map_or_else(|fault| format!("{fault}: {}", fault.trace), |number| number.to_string())
}

#[workflow]
pub async fn captured_in_an_error(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
