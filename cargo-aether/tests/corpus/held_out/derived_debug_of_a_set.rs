//! A derived Debug of a struct that holds a set
//! how: hash

use std::collections::HashSet;

use aether::prelude::*;

#[derive(Debug, Default)]
struct Access {
    user: String,
    roles: Option<HashSet<String>>,
}

impl Access {
    fn describe(&self) -> String {
        format!("{self:#?}")
    }
}

fn access(user: &str, roles: &str) -> Access {
    Access { user: user.to_owned(), roles: Some(roles.split(' ').map(str::to_owned).collect()) }
}

#[workflow]
pub async fn derived_debug_of_a_set(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(access("ada", "read write audit admin pay ship").describe())
}
