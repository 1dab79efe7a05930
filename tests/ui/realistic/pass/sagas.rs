#![deny(warnings)]
//! Sagas: bookings and payments that are undone when a later step fails.

use aether::prelude::*;
use aether::StepError;
use aether::error::{Classify, FailureClass};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trip {
    pub traveller: String,
    pub from: String,
    pub to: String,
    pub cents: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BookingError {
    SoldOut,
    Card { code: u16 },
    Other(Failure),
}

impl fmt::Display for BookingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SoldOut => f.write_str("sold out"),
            Self::Card { code } => write!(f, "card refused with {code}"),
            Self::Other(failure) => failure.fmt(f),
        }
    }
}

impl Classify for BookingError {
    fn class(&self) -> FailureClass {
        match self {
            Self::SoldOut | Self::Card { .. } => FailureClass::Permanent,
            Self::Other(failure) => failure.class(),
        }
    }
}

impl From<StepError<BookingError>> for BookingError {
    fn from(error: StepError<BookingError>) -> Self {
        match error {
            StepError::App(error) | StepError::Exhausted(error) => error,
            other => Self::Other(Failure::new(other)),
        }
    }
}

type Booked<T> = Result<T, BookingError>;

#[step(effect = "external", idempotent, retry(max_retries = 3, delay = "500ms"))]
async fn book_flight(cx: &mut StepCx, trip: &Trip) -> Booked<String> {
    let _ = cx;
    if trip.to.is_empty() { Err(BookingError::SoldOut) } else { Ok(format!("F-{}", trip.to)) }
}

#[step(effect = "external", idempotent, retry(max_retries = 3))]
async fn book_hotel(cx: &mut StepCx, trip: &Trip) -> Booked<String> {
    let _ = cx;
    Ok(format!("H-{}", trip.to))
}

#[step(effect = "tool", key = |traveller, cents| format!("{traveller}:{cents}"), on_unknown = "ask", irreversible)]
async fn charge(cx: &mut StepCx, traveller: String, cents: u64) -> Booked<String> {
    if cents > 1_000_000 {
        return Err(BookingError::Card { code: 51 });
    }
    Ok(format!("{}-{traveller}", cx.uuid()))
}

#[step(effect = "tool", idempotent, retry(max_retries = 10, delay = "1s", max_delay = "1m"))]
async fn cancel(cx: &mut StepCx, booking: &str) -> Result<()> {
    let _ = (cx, booking);
    Ok(())
}

#[step(effect = "tool", probe = was_refunded)]
async fn refund(cx: &mut StepCx, payment: String) -> Result<()> {
    let _ = (cx, payment);
    Ok(())
}

async fn was_refunded(_: &mut StepCx, payment: String) -> Result<Probe<()>> {
    Ok(if payment.is_empty() { Probe::DidNotHappen } else { Probe::Happened(()) })
}

async fn undone(result: std::result::Result<(), StepError>) -> Option<String> {
    result.err().map(|error| error.to_string())
}

// 11
#[workflow]
async fn book_trip(cx: &mut Cx, trip: Trip) -> Booked<(String, String, String)> {
    let flight = book_flight(cx, &trip).await?;
    let hotel = match book_hotel(cx, &trip).await {
        Ok(hotel) => hotel,
        Err(error) => {
            if let Err(left) = cancel(cx, &flight).await {
                tracing::error!(%flight, %left, "flight stays booked");
            }
            return Err(error.into());
        }
    };
    match charge(cx, trip.traveller.clone(), trip.cents).await {
        Ok(payment) => Ok((flight, hotel, payment)),
        Err(error) => {
            for booking in [&hotel, &flight] {
                let _ = cancel(cx, booking).await;
            }
            Err(error.into())
        }
    }
}

// 12
#[workflow]
async fn book_side_by_side(cx: &mut Cx, trip: Trip) -> Booked<Vec<String>> {
    let (flight, hotel) =
        cx.join((async |cx: &mut Cx| book_flight(cx, &trip).await, async |cx: &mut Cx| book_hotel(cx, &trip).await)).await;
    match (flight, hotel) {
        (Ok(flight), Ok(hotel)) => Ok(vec![flight, hotel]),
        (Ok(one), Err(error)) | (Err(error), Ok(one)) => {
            let _ = cancel(cx, &one).await;
            Err(error.into())
        }
        (Err(error), Err(_)) => Err(error.into()),
    }
}

// 13
#[workflow]
async fn unwind(cx: &mut Cx, bookings: Vec<String>) -> Result<Vec<String>> {
    let mut stack = bookings;
    let mut left = Vec::new();
    while let Some(booking) = stack.pop() {
        match cancel(cx, &booking).await {
            Ok(()) => {}
            Err(StepError::InDoubt(why)) => left.push(format!("{booking}: {why}")),
            Err(error) => return Err(Failure::from(error).context(format!("cancel {booking}"))),
        }
    }
    Ok(left)
}

// 14
#[workflow(version = 2)]
async fn pay_in_rates(cx: &mut Cx, traveller: String, cents: u64, rates: u32) -> Booked<Vec<String>> {
    let mut paid = Vec::new();
    let rate = cents / u64::from(rates.max(1));
    for number in 0..rates {
        if number > 0 {
            cx.sleep(Duration::from_secs(30 * 24 * 3600)).await;
        }
        paid.push(charge(cx, format!("{traveller}#{number}"), rate).await?);
    }
    Ok(paid)
}

// 15
#[workflow]
async fn refund_all(cx: &mut Cx, payments: Vec<String>) -> Result<usize> {
    let mut failed = 0;
    for payment in &payments {
        if refund(cx, payment.clone()).await.is_err() {
            failed += 1;
        }
    }
    if failed * 2 > payments.len() {
        return Err(Failure::retryable(format!("{failed} of {} refunds failed", payments.len())));
    }
    Ok(payments.len() - failed)
}

// 16
#[workflow]
async fn rebook(cx: &mut Cx, trip: Trip, stops: Vec<String>) -> Booked<Option<String>> {
    for stop in stops {
        let trip = Trip { to: stop, ..trip.clone() };
        match book_flight(cx, &trip).await {
            Ok(flight) => return Ok(Some(flight)),
            Err(StepError::App(BookingError::SoldOut)) => continue,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

// 17
#[workflow]
async fn hold_then_pay(cx: &mut Cx, trip: Trip) -> Booked<String> {
    let hold = book_flight(cx, &trip).await?;
    let deadline = cx.now().await + Duration::from_secs(900);
    let mut wait = Duration::from_secs(5);
    loop {
        match charge(cx, trip.traveller.clone(), trip.cents).await {
            Ok(payment) => break Ok(payment),
            Err(error) if cx.now().await < deadline => {
                tracing::info!(?error, "again in {wait:?}");
                cx.sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(120));
            }
            Err(error) => {
                let _ = cancel(cx, &hold).await;
                break Err(error.into());
            }
        }
    }
}

// 18
#[workflow]
async fn group_booking(cx: &mut Cx, trips: Vec<Trip>) -> Result<(Vec<String>, Vec<String>)> {
    let booked = cx.each(trips, async |cx: &mut Cx, trip: Trip| book_trip(cx, trip).await).limit(8).await;
    let (good, bad): (Vec<_>, Vec<_>) = booked.into_iter().partition(std::result::Result::is_ok);
    let good = good.into_iter().flatten().map(|(flight, ..)| flight).collect();
    let bad = bad.into_iter().filter_map(|result| result.err().map(|error| error.to_string())).collect();
    Ok((good, bad))
}

// 19
#[workflow]
async fn child_saga(cx: &mut Cx, trip: Trip) -> Result<String> {
    let booked = cx.child::<book_side_by_side>(trip.clone()).await;
    match booked {
        Ok(bookings) => Ok(bookings.join("+")),
        Err(error) => Err(Failure::permanent(format!("{} -> {}: {error}", trip.from, trip.to))),
    }
}

// 20
#[workflow]
async fn insured(cx: &mut Cx, trip: Trip, insured: Option<bool>) -> Booked<u64> {
    let fee = if insured.unwrap_or(trip.cents > 100_000) { trip.cents / 20 } else { 0 };
    let payment = charge(cx, trip.traveller, trip.cents + fee).await?;
    Ok(payment.len() as u64)
}

fn main() {
    let _ = undone;
}
