//! Workflow code and bodies read; only the engine moves a status.

use aether::view::{Contract, Status, Trigger};
use aether::prelude::*;

/// Pay.
#[step(effect = "tool")]
async fn pay(cx: &mut StepCx, amount: u32) -> Result<u32> {
    let contract: Contract = cx.contract();
    contract.transition(Trigger::Succeed);
    Ok(amount)
}

/// Pay in a workflow.
#[workflow]
async fn order(cx: &mut Cx, amount: u32) -> Result<u32> {
    cx.set_status(Status::Completed);
    Ok(pay(cx, amount).await?)
}

fn main() {}
