use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = rusqlite::Connection::open("a.db");
    Ok(())
}

fn main() {}
