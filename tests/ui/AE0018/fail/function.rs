use aether::prelude::*;

#[workflow_mod]
fn flow() {}

fn main() {}
