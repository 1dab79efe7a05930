//! A refund that a person must agree to above a limit
//! how: clean

use std::time::Duration;

use aether::people::Decision;
use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct RefundRequest {
    order: String,
    amount: Decimal,
    reason: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum RefundOutcome {
    Paid { transfer: String, approved_by: Option<String> },
    Refused { by: String, reason: String },
    Undecided,
}

const LIMIT_CENTS: i64 = 100_00;

fn needs_approval(amount: Decimal) -> bool {
    amount > Decimal::new(LIMIT_CENTS, 2)
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn refund_with_approval_pay(cx: &mut StepCx, order: &str, amount: Decimal) -> Result<String> {
    let body = serde_json::json!({ "order": order, "amount": amount });
    let reply = cx.http().post("https://bank.example/refunds").json(&body).send().await?;
    Ok(reply.error_for_status()?.text().to_owned())
}

#[workflow]
pub async fn refund_with_approval(cx: &mut Cx, request: RefundRequest) -> Result<RefundOutcome> {
    if request.amount <= Decimal::ZERO {
        return Err(Failure::permanent(format!("{} cannot be refunded", request.amount)));
    }
    let mut approved_by = None;
    if needs_approval(request.amount) {
        let week = Duration::from_secs(7 * 24 * 3600);
        match cx.approval("refund over limit").details(&request).expires(week).await? {
            Decision::Approved { by } => approved_by = Some(by),
            Decision::Rejected { by, reason } => return Ok(RefundOutcome::Refused { by, reason }),
            Decision::Expired(_) => return Ok(RefundOutcome::Undecided),
        }
    }
    let transfer = refund_with_approval_pay(cx, &request.order, request.amount).await?;
    Ok(RefundOutcome::Paid { transfer, approved_by })
}
