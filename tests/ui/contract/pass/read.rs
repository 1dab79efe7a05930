#![deny(warnings)]
//! A body reads its contract.

use aether::prelude::*;

/// Pay.
#[step(effect = "tool", irreversible, timeout = "5s")]
async fn pay(cx: &mut StepCx, amount: u32) -> Result<u32> {
    let contract = cx.contract();
    if !contract.irreversible() || contract.timeout().is_none() {
        return Err(Failure::permanent(contract.execution_id()));
    }
    Ok(amount)
}

/// Pay in a workflow.
#[workflow]
async fn order(cx: &mut Cx, amount: u32) -> Result<u32> {
    Ok(pay(cx, amount).await?)
}

fn main() {}
