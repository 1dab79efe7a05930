//! A fingerprint by the default hasher, which has fixed keys when it is made by new
//! how: clean

use std::hash::{DefaultHasher, Hash, Hasher};

use aether::prelude::*;

struct Caseless(String);

impl Hash for Caseless {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for c in self.0.chars() {
            c.to_ascii_lowercase().hash(state);
        }
        state.write_u8(0xff);
    }
}

#[derive(Hash)]
struct Request {
    host: Caseless,
    port: u16,
    path: Vec<&'static str>,
}

fn fingerprint<T: Hash>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[workflow]
pub async fn default_hasher_fingerprint(cx: &mut Cx, _input: u64) -> Result<String> {
    let port = cx.random().await as u16;
    let one = Request { host: Caseless("Example.ORG".into()), port, path: vec!["a", "b"] };
    let two = Request { host: Caseless("example.org".into()), port, path: vec!["a", "b"] };
    Ok(format!("{:x} {}", fingerprint(&one), fingerprint(&one) == fingerprint(&two)))
}
