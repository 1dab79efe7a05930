use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = dbg!(1);
    print!("a");
    let _ = std::io::stdout();
    let _ = std::io::Write::flush(&mut std::io::stderr());
    Ok(())
}

fn main() {}
