use aether::prelude::*;

struct Agent;
struct Many<T>(T);

#[workflow]
impl Default for Agent {
    fn default() -> Self {
        Self
    }
}

#[workflow]
impl<T> Many<T> {
    async fn flow(cx: &mut Cx) -> Result<()> {
        let _ = cx;
        Ok(())
    }
}

fn main() {}
