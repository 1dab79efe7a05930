//! A tree whose nodes know their parents, compared by identity
//! how: clean

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use aether::prelude::*;

struct Node {
    name: String,
    parent: RefCell<Weak<Node>>,
    children: RefCell<Vec<Rc<Node>>>,
}

impl Node {
    fn new(name: impl Into<String>) -> Rc<Self> {
        Rc::new(Self { name: name.into(), parent: RefCell::default(), children: RefCell::default() })
    }

    fn add(self: &Rc<Self>, child: Rc<Self>) -> Rc<Self> {
        *child.parent.borrow_mut() = Rc::downgrade(self);
        self.children.borrow_mut().push(Rc::clone(&child));
        child
    }

    fn path(&self) -> String {
        match self.parent.borrow().upgrade() {
            Some(parent) => format!("{}/{}", parent.path(), self.name),
            None => self.name.clone(),
        }
    }

    fn place(self: &Rc<Self>) -> Option<usize> {
        let parent = self.parent.borrow().upgrade()?;
        let children = parent.children.borrow();
        children.iter().position(|child| Rc::ptr_eq(child, self))
    }
}

fn tree(width: u64) -> String {
    let root = Node::new("root");
    let mut last = Rc::clone(&root);
    for n in 0..=width {
        last = root.add(Node::new(format!("n{n}"))).add(Node::new("same"));
        root.add(Node::new("same"));
    }
    let parent = last.parent.borrow().upgrade();
    format!(
        "{} {:?} {:?} {}",
        last.path(),
        last.place(),
        parent.and_then(|p| p.place()),
        Rc::strong_count(&last)
    )
}

#[workflow]
pub async fn shared_tree_with_weak(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(tree(cx.random().await % 6))
}
