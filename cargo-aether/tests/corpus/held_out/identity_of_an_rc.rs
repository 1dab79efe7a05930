//! A node's identity, which is where it lies
//! how: address

use std::rc::Rc;

use aether::prelude::*;

struct Node {
    name: &'static str,
}

trait Identity {
    fn identity(&self) -> usize;
}

impl<T> Identity for Rc<T> {
    fn identity(&self) -> usize {
        Rc::as_ptr(self).addr()
    }
}

fn look() -> String {
    let node = Rc::new(Node { name: "root" });
    format!("{}#{:x}", node.name, node.identity())
}

#[workflow]
pub async fn identity_of_an_rc(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(look())
}
