//! A payment with an error type of its own that says what may be tried again
//! how: clean

use std::time::Duration;

use aether::error::{Classify, FailureClass};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum PaymentError {
    #[error("declined: {code}")]
    Declined { code: String },
    #[error("the gateway is busy for {seconds} seconds")]
    Busy { seconds: u64 },
    #[error("card {0} is expired")]
    Expired(String),
}

impl Classify for PaymentError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Busy { .. } => FailureClass::Retryable,
            Self::Declined { .. } | Self::Expired(_) => FailureClass::Permanent,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { seconds } => Some(Duration::from_secs(*seconds)),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Card {
    token: String,
    brand: String,
}

#[step(effect = "tool", idempotent, on_unknown = "retry", retry(max_retries = 4, delay = "500ms"))]
pub async fn card_payment_authorise(
    _cx: &mut StepCx,
    card: &str,
    cents: u64,
) -> Result<String, PaymentError> {
    match card {
        "" => Err(PaymentError::Expired("unknown".into())),
        _ if cents > 5_000_00 => Err(PaymentError::Declined { code: "limit".into() }),
        _ => Ok(format!("{card}-{cents}")),
    }
}

fn is_worth_another_card(error: &PaymentError) -> bool {
    matches!(error, PaymentError::Expired(_))
        || matches!(error, PaymentError::Declined { code } if code != "fraud")
}

#[workflow]
pub async fn card_payment(cx: &mut Cx, cards: Vec<Card>, cents: u64) -> Result<String> {
    let mut refused = Vec::new();
    for card in &cards {
        match card_payment_authorise(cx, &card.token, cents).await {
            Ok(authorisation) => return Ok(authorisation),
            Err(StepError::App(error)) if is_worth_another_card(&error) => {
                tracing::info!(brand = card.brand, %error, "another card is tried");
                refused.push(format!("{}: {error}", card.brand));
            }
            Err(StepError::Exhausted(error)) => refused.push(format!("{}: gave up, {error}", card.brand)),
            Err(other) => return Err(other.into()),
        }
    }
    Err(Failure::permanent(refused.join("; ")))
}
