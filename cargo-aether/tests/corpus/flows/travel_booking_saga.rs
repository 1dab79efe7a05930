//! Flight, hotel and car are booked, and cancelled in reverse order where one is not to be had
//! how: clean

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trip {
    traveller: String,
    city: String,
    nights: u8,
    car: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Itinerary {
    flight: String,
    hotel: String,
    car: Option<String>,
    given_up: Vec<String>,
}

#[step(effect = "tool", compensate = travel_booking_saga_cancel_flight)]
pub async fn travel_booking_saga_flight(_cx: &mut StepCx, trip: &Trip) -> Result<String> {
    Ok(format!("flight to {}", trip.city))
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn travel_booking_saga_cancel_flight(
    _cx: &mut StepCx,
    trip: &Trip,
    booked: Option<String>,
) -> Result<()> {
    tracing::info!(city = trip.city, ?booked, "flight cancelled");
    Ok(())
}

#[step(effect = "tool", compensate = travel_booking_saga_cancel_hotel)]
pub async fn travel_booking_saga_hotel(_cx: &mut StepCx, trip: &Trip) -> Result<String> {
    if trip.nights == 0 {
        return Err(Failure::permanent("no night to book"));
    }
    Ok(format!("{} nights in {}", trip.nights, trip.city))
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn travel_booking_saga_cancel_hotel(
    _cx: &mut StepCx,
    trip: &Trip,
    booked: Option<String>,
) -> Result<()> {
    Ok(())
}

#[step(effect = "tool")]
pub async fn travel_booking_saga_car(_cx: &mut StepCx, trip: &Trip) -> Result<String> {
    Err(Failure::permanent(format!("no car in {}", trip.city)))
}

#[workflow]
pub async fn travel_booking_saga(cx: &mut Cx, trip: Trip) -> Result<Itinerary> {
    let mut plan = Itinerary { flight: travel_booking_saga_flight(cx, &trip).await?, ..Itinerary::default() };
    match travel_booking_saga_hotel(cx, &trip).await {
        Ok(hotel) => plan.hotel = hotel,
        Err(error) => {
            let left = cx.compensate().await;
            plan.given_up.push(format!("{error}; {} could not be undone", left.len()));
            return Ok(plan);
        }
    }
    if trip.car {
        plan.car = match travel_booking_saga_car(cx, &trip).await {
            Ok(car) => Some(car),
            Err(StepError::App(why)) => {
                plan.given_up.push(why.to_string());
                None
            }
            Err(other) => return Err(other.into()),
        };
    }
    Ok(plan)
}
