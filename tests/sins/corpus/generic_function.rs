//! The wall clock behind a type parameter
//! how: indirect

use aether::prelude::*;

trait Source {
    fn read() -> String;
}

struct Wall;

impl Source for Wall {
    fn read() -> String {
        format!("{:?}", std::time::SystemTime::now())
    }
}

fn read<S: Source>() -> String {
    S::read()
}

#[workflow]
pub async fn generic_function(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(read::<Wall>())
}
