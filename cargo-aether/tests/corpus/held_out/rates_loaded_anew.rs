//! A table of rates behind a lock, which a task in the background loads anew
//! how: static

use std::collections::BTreeMap;
use std::sync::{LazyLock, RwLock};

use aether::prelude::*;

static RATES: LazyLock<RwLock<BTreeMap<String, u64>>> = LazyLock::new(RwLock::default);

pub async fn keep_rates_fresh(mut newest: impl FnMut() -> BTreeMap<String, u64>) {
    loop {
        *RATES.write().unwrap() = newest();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    }
}

/// Programs call it when they start.
pub fn start() {
    let _runs_on = tokio::spawn(keep_rates_fresh(BTreeMap::new));
}

fn rate(currency: &str) -> u64 {
    RATES.read().unwrap().get(currency).copied().unwrap_or(100)
}

#[workflow]
pub async fn rates_loaded_anew(cx: &mut Cx, _input: u64) -> Result<u64> {
    let amount = cx.random().await % 1000;
    Ok(amount * rate("EUR"))
}
