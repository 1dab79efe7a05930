//! Numbers of symbols in a table of the whole process
//! how: static

use aether::prelude::*;
use indexmap::IndexSet;
use once_cell::sync::Lazy;
use parking_lot::RwLock;

static SYMBOLS: Lazy<RwLock<IndexSet<String>>> = Lazy::new(RwLock::default);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol(usize);

impl From<String> for Symbol {
    fn from(name: String) -> Self {
        Symbol(SYMBOLS.write().insert_full(name).0)
    }
}

fn look(name: u64) -> String {
    let symbol = Symbol::from(format!("order {name}"));
    format!("{symbol:?}")
}

#[workflow]
pub async fn interned_symbols(cx: &mut Cx, _input: u64) -> Result<String> {
    let name = cx.random().await;
    Ok(look(name))
}
