//! The wall clock behind a trait object
//! how: indirect

use aether::prelude::*;

trait Source {
    fn read(&self) -> String;
}

struct Wall;

impl Source for Wall {
    fn read(&self) -> String {
        format!("{:?}", std::time::SystemTime::now())
    }
}

#[workflow]
pub async fn trait_object(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let source: &dyn Source = &Wall;
    Ok(source.read())
}
