//! Events and spans of a log beside the result
//! how: clean

use aether::prelude::*;
use tracing::{Level, debug, enabled, error_span, info, instrument, warn};

#[derive(Debug)]
struct Parcel {
    grams: u64,
    fragile: bool,
}

#[instrument(level = "debug", skip(parcel), fields(grams = parcel.grams))]
fn postage(parcel: &Parcel) -> u64 {
    let base = match parcel.grams {
        0..=500 => 160,
        501..=2000 => 390,
        _ => 990,
    };
    debug!(base, "found a class");
    if parcel.fragile {
        info!(?parcel, "needs care");
        base + 200
    } else {
        base
    }
}

fn total(parcels: &[Parcel]) -> u64 {
    let span = error_span!("total", count = parcels.len());
    let _entered = span.enter();
    let total = parcels.iter().map(postage).sum();
    if total > 2000 && enabled!(Level::WARN) {
        warn!(total, "expensive");
    }
    total
}

#[workflow]
pub async fn tracing_events(cx: &mut Cx, _input: u64) -> Result<String> {
    let seed = cx.random().await;
    let parcels =
        [Parcel { grams: seed % 3000, fragile: seed % 2 == 0 }, Parcel { grams: 12, fragile: false }];
    Ok(total(&parcels).to_string())
}
