use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    use std::env;
    let _ = env::var("HOME");
    let _ = env::args().count();
    let _ = std::env::current_dir();
    let _ = std::thread::available_parallelism();
    let _ = dotenvy::dotenv();
    Ok(())
}

fn main() {}
