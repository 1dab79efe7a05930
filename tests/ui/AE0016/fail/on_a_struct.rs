use aether::prelude::*;

#[workflow]
struct Flow;

fn main() {}
