//! A newtype with Deref, Default, AsRef and operators
//! how: clean

use std::ops::{AddAssign, Deref, DerefMut, Index};

use aether::prelude::*;

#[derive(Clone, Debug)]
struct Tags(Vec<String>);

impl Default for Tags {
    fn default() -> Self {
        Self(vec!["new".to_owned()])
    }
}

impl Deref for Tags {
    type Target = Vec<String>;

    fn deref(&self) -> &Vec<String> {
        &self.0
    }
}

impl DerefMut for Tags {
    fn deref_mut(&mut self) -> &mut Vec<String> {
        &mut self.0
    }
}

impl AddAssign<&str> for Tags {
    fn add_assign(&mut self, tag: &str) {
        if let Err(at) = self.binary_search_by(|known| known.as_str().cmp(tag)) {
            self.insert(at, tag.to_owned());
        }
    }
}

impl Index<&str> for Tags {
    type Output = str;

    fn index(&self, start: &str) -> &str {
        self.iter().find(|tag| tag.starts_with(start)).map_or("", String::as_str)
    }
}

fn tagged(n: u64) -> String {
    let mut tags = Tags::default();
    for tag in ["paid", "late", "new", if n % 3 == 0 { "gift" } else { "bulk" }] {
        tags += tag;
    }
    format!("{tags:?} {} {:?}", &tags["p"], tags.first())
}

#[workflow]
pub async fn deref_and_default(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(tagged(cx.random().await))
}
