#![deny(warnings)]

/// What a pattern of another crate looks like.
pub(crate) mod regex {
    pub(crate) struct Regex(pub(crate) &'static str);

    impl Regex {
        pub(crate) fn is_match(&self, text: &str) -> bool {
            text.contains(self.0)
        }
    }
}

#[aether::workflow_mod]
mod agent {
    use std::sync::LazyLock;

    use aether::prelude::*;

    use crate::regex::Regex;

    static URGENT: LazyLock<Regex> = LazyLock::new(|| Regex("urgent"));

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx, text: String) -> Result<bool> {
        let _ = cx;
        Ok(URGENT.is_match(&text))
    }
}

fn main() {}
