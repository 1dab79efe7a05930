use aether::prelude::*;

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let late = async |cx: &mut Cx| {
        let _ = cx;
        std::time::SystemTime::now()
    };
    let _ = late;
    let _ = format!("{:?}", std::time::SystemTime::now());
    fn inner() -> std::time::Instant {
        std::time::Instant::now()
    }
    let _ = inner;
    Ok(())
}

fn main() {}
