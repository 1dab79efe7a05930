//! An invoice is reminded of in growing intervals until it is paid or given to a collector
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Invoice {
    number: u32,
    email: String,
    cents: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payment {
    cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Ending {
    Paid { reminders: u32 },
    Collector { missing: u64 },
}

fn tone(round: u32) -> &'static str {
    match round {
        0 => "friendly",
        1 | 2 => "firm",
        _ => "last",
    }
}

fn wait_before(round: u32) -> Duration {
    DAY * (14 >> round.min(3))
}

#[step(effect = "tool", idempotent)]
pub async fn invoice_reminders_mail(_cx: &mut StepCx, to: &str, number: u32, tone: &str) -> Result<()> {
    tracing::debug!(to, number, tone, "mail");
    Ok(())
}

#[step(effect = "external")]
pub async fn invoice_reminders_collect(_cx: &mut StepCx, number: u32, cents: u64) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn invoice_reminders(cx: &mut Cx, invoice: Invoice) -> Result<Ending> {
    let mut received = 0u64;
    let mut reminders = 0u32;
    while reminders < 4 {
        match cx.signal::<Payment>("paid").timeout(wait_before(reminders)).await {
            Ok(payment) => received = received.saturating_add(payment.cents),
            Err(StepError::TimedOut(_)) => {
                invoice_reminders_mail(cx, &invoice.email, invoice.number, tone(reminders)).await?;
                reminders += 1;
            }
            Err(other) => return Err(other.into()),
        }
        if received >= invoice.cents {
            return Ok(Ending::Paid { reminders });
        }
    }
    let missing = invoice.cents - received;
    invoice_reminders_collect(cx, invoice.number, missing).await?;
    Ok(Ending::Collector { missing })
}
