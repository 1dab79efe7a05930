//! A table of units that is parsed once
//! how: clean

use std::collections::HashMap;
use std::sync::OnceLock;

use aether::prelude::*;

const UNITS: &str = "
    mm 1
    cm 10
    dm 100
    m  1000
    km 1000000
";

fn units() -> &'static HashMap<&'static str, u64> {
    static TABLE: OnceLock<HashMap<&'static str, u64>> = OnceLock::new();
    TABLE.get_or_init(|| {
        UNITS
            .lines()
            .filter_map(|line| {
                let (unit, factor) = line.trim().split_once(' ')?;
                Some((unit, factor.trim().parse().ok()?))
            })
            .collect()
    })
}

fn in_millimetres(length: &str) -> Option<u64> {
    let digits = length.find(|c: char| !c.is_ascii_digit())?;
    let (value, unit) = length.split_at(digits);
    Some(value.parse::<u64>().ok()? * units().get(unit.trim())?)
}

#[workflow]
pub async fn once_lock_of_tables(cx: &mut Cx, _input: u64) -> Result<String> {
    let length = cx.random().await % 500;
    let total = ["mm", "cm", " km", " mile"].map(|unit| in_millimetres(&format!("{length}{unit}")));
    Ok(format!("{total:?}"))
}
