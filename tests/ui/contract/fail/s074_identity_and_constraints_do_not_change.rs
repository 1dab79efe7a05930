//! Who an execution is and what it may do is fixed when it begins.

use aether::prelude::*;

/// Pay.
#[step(effect = "tool", irreversible)]
async fn pay(cx: &mut StepCx, amount: u32) -> Result<u32> {
    let mut contract = cx.contract();
    contract.irreversible = false;
    contract.timeout = None;
    contract.execution = aether::id::InvocationId::from("0:pay#7".to_owned());
    Ok(amount)
}

fn main() {}
