#![deny(warnings)]

/// What a pattern of another crate looks like.
pub(crate) mod regex {
    pub(crate) struct Regex(String);

    impl Regex {
        pub(crate) fn new(text: &str) -> Result<Self, String> {
            Ok(Self(text.to_owned()))
        }

        pub(crate) fn is_match(&self, text: &str) -> bool {
            text.contains(&self.0)
        }
    }
}

#[aether::workflow_mod]
mod agent {
    use std::sync::LazyLock;

    use aether::prelude::*;

    use super::regex::Regex;

    static URGENT: LazyLock<Regex> = LazyLock::new(|| Regex::new("urgent").unwrap());

    #[workflow]
    pub(crate) async fn flow(cx: &mut Cx, text: String) -> Result<bool> {
        let _ = cx;
        Ok(URGENT.is_match(&text))
    }
}

fn main() {}
