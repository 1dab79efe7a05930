//! The order of the ids of types
//! how: address

use std::any::TypeId;
use std::collections::BTreeMap;

use aether::prelude::*;

fn names() -> String {
    let mut names = BTreeMap::new();
    names.insert(TypeId::of::<u8>(), "u8");
    names.insert(TypeId::of::<String>(), "String");
    names.insert(TypeId::of::<f64>(), "f64");
    names.into_values().collect::<Vec<_>>().join(" ")
}

#[workflow]
pub async fn order_of_type_ids(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(names())
}
