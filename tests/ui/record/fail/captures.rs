use aether::prelude::*;

fn main() {
    let secret = String::new();
    #[step(effect = "read")]
    async fn act(cx: &mut StepCx) -> Result<String> {
        let _ = cx;
        Ok(secret.clone())
    }
    let _ = act::tool();
}
