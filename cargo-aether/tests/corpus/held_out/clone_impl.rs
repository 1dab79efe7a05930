//! A Clone that gives the copy an id of its own
//! how: random

use aether::prelude::*;

struct Draft {
    id: uuid::Uuid,
    text: String,
}

impl Clone for Draft {
    fn clone(&self) -> Self {
        Draft { id: uuid::Uuid::new_v4(), text: self.text.clone() }
    }
}

fn copies(draft: &Draft) -> Vec<Draft> {
    vec![draft.to_owned(); 2]
}

#[workflow]
pub async fn clone_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let draft = Draft { id: uuid::Uuid::nil(), text: "hello".to_owned() };
    Ok(copies(&draft)[0].id.to_string())
}
