//! Types of one's own with names of the world's, imported, whose functions take other arguments.
#![deny(warnings)]
use aether::prelude::*;

use self::domain::{File, Notify};

mod domain {
    pub struct Notify(pub String);

    impl Notify {
        pub fn new(to: &str) -> Self {
            Self(to.to_owned())
        }
    }

    pub struct File(pub String, pub u64);

    impl File {
        pub fn create(name: &str, size: u64) -> Self {
            Self(name.to_owned(), size)
        }
    }
}

/// Tell somebody how large a file is.
#[workflow]
async fn tell(cx: &mut Cx) -> Result<String> {
    let (notify, file) = (Notify::new("ann"), File::create("list", 3));
    Ok(format!("{}: {} has {}, {}", notify.0, file.0, file.1, cx.random().await))
}

fn main() {
    let _size = std::mem::size_of::<tell>();
}
