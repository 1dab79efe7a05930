use aether::prelude::*;

#[workflow_mod]
mod agent {
    use aether::prelude::*;
    use std::sync::{LazyLock, Mutex};

    static CONFIG: LazyLock<String> = LazyLock::new(String::new);
    pub(crate) static STATE: Mutex<u32> = Mutex::new(0);

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx) -> Result<()> {
        let _ = cx;
        let _ = CONFIG.len();
        let _ = &STATE;
        Ok(())
    }
}

fn main() {}
