#![deny(warnings)]

use aether::prelude::*;

/// A command of the domain.
struct Command(String, u32);

impl Command {
    fn new(name: &str, count: u32) -> Self {
        Self(name.to_owned(), count)
    }
}

mod process {
    pub(crate) fn order(count: u32) -> u32 {
        count
    }
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<u32> {
    let _ = cx;
    let command = Command::new("ship", 3);
    Ok(process::order(command.1) + u32::from(command.0.is_empty()))
}

fn main() {}
