//! A server that is chosen from a list
//! how: random

use aether::prelude::*;
use rand::seq::IndexedRandom as _;

struct Pool(Vec<&'static str>);

impl Pool {
    fn pick(&self) -> &'static str {
        self.0.choose(&mut rand::rng()).copied().unwrap_or("none")
    }
}

#[workflow]
pub async fn canary_choice(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let pool = Pool(vec!["a", "b", "c", "d", "e"]);
    Ok(pool.pick().to_owned())
}
