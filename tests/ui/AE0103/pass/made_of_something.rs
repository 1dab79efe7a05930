#![deny(warnings)]

use aether::prelude::*;

mod own {
    pub(crate) struct ObjectId(pub(crate) String);

    impl ObjectId {
        pub(crate) fn new(name: &str) -> Self {
            Self(name.to_owned())
        }
    }
}

use own::ObjectId;

#[workflow]
async fn flow(cx: &mut Cx, name: String) -> Result<String> {
    let _ = cx;
    Ok(ObjectId::new(&name).0)
}

fn main() {}
