#[aether::workflow_mod]
mod agent {
    use std::sync::LazyLock;

    use aether::prelude::*;

    pub(crate) struct Regex(String);

    impl Regex {
        fn is_match(&self, text: &str) -> bool {
            text.contains(&self.0)
        }
    }

    static URGENT: LazyLock<Regex> = LazyLock::new(|| Regex(std::env::var("URGENT").unwrap_or_default()));

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx, text: String) -> Result<bool> {
        let _ = cx;
        Ok(URGENT.is_match(&text))
    }
}

fn main() {}
