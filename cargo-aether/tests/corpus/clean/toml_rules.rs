//! Rules that are parsed from a constant text
//! how: clean

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aether::prelude::*;
use serde::Deserialize;

const RULES: &str = r#"
default = "standard"

[carrier.standard]
grams = 5000
cents = 490

[carrier.freight]
grams = 300000
cents = 7900
"#;

#[derive(Debug, Deserialize)]
struct Rules {
    default: String,
    carrier: BTreeMap<String, Carrier>,
}

#[derive(Debug, Deserialize)]
struct Carrier {
    grams: u64,
    cents: u64,
}

static PARSED: LazyLock<Rules> = LazyLock::new(|| toml::from_str(RULES).expect("the rules are valid"));

fn carrier(grams: u64) -> (&'static str, u64) {
    let cheapest = PARSED.carrier.iter().filter(|(_, c)| c.grams >= grams).min_by_key(|(_, c)| c.cents);
    cheapest.map_or((PARSED.default.as_str(), 0), |(name, carrier)| (name, carrier.cents))
}

#[workflow]
pub async fn toml_rules(cx: &mut Cx, _input: u64) -> Result<String> {
    let grams = cx.random().await % 400_000;
    Ok(format!("{:?}", carrier(grams)))
}
