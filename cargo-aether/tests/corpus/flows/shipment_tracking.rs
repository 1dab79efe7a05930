//! Events of a carrier that come in any order end a shipment
//! how: clean

use std::collections::BTreeSet;
use std::time::Duration;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scan {
    Collected,
    InDepot,
    OutForDelivery,
    Delivered,
    Returned,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScanEvent {
    parcel: String,
    scan: Scan,
    place: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Journey {
    places: Vec<String>,
    last: Option<Scan>,
    lost: bool,
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn shipment_tracking_tell(_cx: &mut StepCx, parcel: &str, text: &str) -> Result<()> {
    Ok(())
}

fn news(scan: Scan, place: &str) -> Option<String> {
    Some(match scan {
        Scan::Collected => format!("collected in {place}"),
        Scan::OutForDelivery => "will be there today".to_owned(),
        Scan::Delivered => "has arrived".to_owned(),
        Scan::Returned => format!("goes back from {place}"),
        Scan::InDepot => return None,
    })
}

#[workflow]
pub async fn shipment_tracking(cx: &mut Cx, parcel: String) -> Result<Journey> {
    let mut seen = BTreeSet::new();
    let mut journey = Journey { places: Vec::new(), last: None, lost: false };
    while !matches!(journey.last, Some(Scan::Delivered | Scan::Returned)) {
        let event = match cx.signal::<ScanEvent>("scan").timeout(Duration::from_secs(5 * 24 * 3600)).await {
            Ok(event) => event,
            Err(StepError::TimedOut(_)) => {
                journey.lost = true;
                break;
            }
            Err(other) => return Err(other.into()),
        };
        if event.parcel != parcel || !seen.insert(event.scan) {
            continue;
        }
        if let Some(text) = news(event.scan, &event.place) {
            shipment_tracking_tell(cx, &parcel, &text).await?;
        }
        journey.last = journey.last.max(Some(event.scan));
        journey.places.push(event.place);
    }
    Ok(journey)
}
