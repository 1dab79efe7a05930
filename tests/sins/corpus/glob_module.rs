//! The wall clock through a module that exports it
//! how: indirect

use aether::prelude::*;

mod world {
    pub fn read() -> std::time::SystemTime {
        std::time::SystemTime::now()
    }
}

#[workflow]
pub async fn glob_module(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(format!("{:?}", world::read()))
}
