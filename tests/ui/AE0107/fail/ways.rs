use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::process::{self, Command as Program};
    let _ = Program::new("ls");
    let _ = process::id();
    let _ = tokio::process::Command::new("ls");
    std::process::exit(1);
    
}

fn main() {}
