//! A guard that adds up when it is dropped
//! how: clean

use std::cell::{Cell, RefCell};

use aether::prelude::*;

struct Level<'a> {
    depth: &'a Cell<usize>,
    log: &'a RefCell<Vec<String>>,
    name: String,
}

impl<'a> Level<'a> {
    fn enter(depth: &'a Cell<usize>, log: &'a RefCell<Vec<String>>, name: impl Into<String>) -> Self {
        depth.set(depth.get() + 1);
        Self { depth, log, name: name.into() }
    }
}

impl Drop for Level<'_> {
    fn drop(&mut self) {
        let depth = self.depth.get();
        self.depth.set(depth - 1);
        self.log.borrow_mut().push(format!("{}{}", "-".repeat(depth), self.name));
    }
}

fn walk(width: u64) -> Vec<String> {
    let depth = Cell::new(0);
    let log = RefCell::new(Vec::new());
    {
        let _root = Level::enter(&depth, &log, "root");
        for n in 0..width {
            let _child = Level::enter(&depth, &log, format!("child {n}"));
            let _leaf = Level::enter(&depth, &log, "leaf");
        }
    }
    assert_eq!(depth.get(), 0);
    log.into_inner()
}

#[workflow]
pub async fn guard_that_counts(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(walk(cx.random().await % 4).join(","))
}
