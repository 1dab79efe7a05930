#![deny(warnings)]

use aether::prelude::*;

macro_rules! double {
    ($e:expr) => {
        $e * 2
    };
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = double!(2);
    Ok(())
}

fn main() {}
