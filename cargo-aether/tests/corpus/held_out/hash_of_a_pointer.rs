//! A set that takes equal values for different ones, by the hash of their pointers
//! how: address

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use aether::prelude::*;

#[derive(Clone)]
struct ByIdentity(Arc<str>);

impl Hash for ByIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(Arc::as_ptr(&self.0), state);
    }
}

fn fingerprint<T: Hash>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[workflow]
pub async fn hash_of_a_pointer(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(fingerprint(&ByIdentity("order".into())).to_string())
}
