//! A table in a static of the older kind
//! how: clean

use std::collections::{BTreeMap, HashMap};

use aether::prelude::*;
use once_cell::sync::Lazy;
use once_cell::unsync::OnceCell;

lazy_static::lazy_static! {
    static ref PREFIXES: HashMap<&'static str, &'static str> = {
        let mut map = HashMap::new();
        map.insert("49", "DE");
        map.insert("33", "FR");
        map.insert("1", "US");
        map.insert("351", "PT");
        map
    };
}

static NAMES: Lazy<BTreeMap<&str, &str>> =
    Lazy::new(|| BTreeMap::from([("DE", "Germany"), ("FR", "France"), ("PT", "Portugal")]));

fn country(number: &str) -> &'static str {
    let digits = number.trim_start_matches(['+', '0']);
    let code =
        (1..=3).rev().filter_map(|length| digits.get(..length)).find_map(|prefix| PREFIXES.get(prefix));
    let cell = OnceCell::new();
    cell.get_or_init(|| code.and_then(|code| NAMES.get(code)).copied().unwrap_or("elsewhere"))
}

#[workflow]
pub async fn lazy_static_of_countries(cx: &mut Cx, _input: u64) -> Result<String> {
    let number = format!("+{}", cx.random().await);
    Ok(["+49 30 1", "0033 1", "+351 21", "+1 212", &number].map(country).join(", "))
}
