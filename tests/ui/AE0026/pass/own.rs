#![deny(warnings)]

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
enum Error {
    Empty,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("empty")
    }
}

impl std::error::Error for Error {}

#[step(effect = "read")]
async fn first(cx: &mut StepCx, of: &str) -> Result<char, Error> {
    let _ = cx;
    of.chars().next().ok_or(Error::Empty)
}

#[workflow]
async fn flow(cx: &mut Cx, word: String) -> aether::Result<Box<str>> {
    let number: u32 = word.parse()?;
    Ok(format!("{number}{}", first(cx, &word).await?).into())
}

fn main() {}
