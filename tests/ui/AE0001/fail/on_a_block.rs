use aether::prelude::*;

struct Agent;

#[workflow(version = 2)]
impl Agent {}

fn main() {}
