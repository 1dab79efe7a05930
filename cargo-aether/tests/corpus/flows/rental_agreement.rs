//! Workflows and steps as associated functions, with helpers in a module
//! how: clean

use std::time::Duration;

use aether::jiff::civil::Date;
use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

mod pricing {
    use aether::jiff::civil::Date;
    use rust_decimal::Decimal;

    pub fn days(from: Date, until: Date) -> i64 {
        i64::from((until - from).get_days()).max(0) + 1
    }

    pub fn price(daily: Decimal, days: i64) -> Decimal {
        let discount = match days {
            ..=6 => Decimal::ZERO,
            7..=27 => Decimal::new(10, 2),
            _ => Decimal::new(25, 2),
        };
        (daily * Decimal::from(days) * (Decimal::ONE - discount)).round_dp(2)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rental {
    car: String,
    from: Date,
    until: Date,
    daily: Decimal,
}

pub struct Desk;

#[workflow]
impl Desk {
    #[step(effect = "tool", compensate = Desk::unblock)]
    pub async fn block(_cx: &mut StepCx, car: &str, deposit: Decimal) -> Result<String> {
        Ok(format!("{deposit} for {car}"))
    }

    #[step(effect = "tool", idempotent, on_unknown = "retry")]
    pub async fn unblock(
        _cx: &mut StepCx,
        car: &str,
        deposit: Decimal,
        blocked: Option<String>,
    ) -> Result<()> {
        Ok(())
    }

    fn deposit(rental: &Rental) -> Decimal {
        (rental.daily * Decimal::from(3)).ceil()
    }

    pub async fn returned(cx: &mut Cx, days: i64) -> Result<i64> {
        let limit = Duration::from_secs(24 * 3600).saturating_mul(u32::try_from(days).unwrap_or(u32::MAX));
        match cx.signal::<u32>("returned").timeout(limit).await {
            Ok(_kilometres) => Ok(0),
            Err(StepError::TimedOut(_)) => Ok(1),
            Err(other) => Err(other.into()),
        }
    }
}

#[workflow]
pub async fn rental_agreement(cx: &mut Cx, rental: Rental) -> Result<Decimal> {
    let days = pricing::days(rental.from, rental.until);
    Desk::block(cx, &rental.car, Desk::deposit(&rental)).await?;
    let late = Desk::returned(cx, days).await?;
    let extra = rental.daily * Decimal::from(late) * Decimal::new(15, 1);
    Ok(pricing::price(rental.daily, days) + extra)
}
