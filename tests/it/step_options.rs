//! What `#[step(..)]` says beyond the effect class, as the engine finds it: in the definition and in the step's own
//! functions.

use aether::Step;
use aether::def::Approval;
use aether::prelude::*;

/// Pay money out.
#[step(effect = "tool", approval = |cents, to: &str| *cents > 10_000 && to != "house")]
async fn pay_out(cx: &mut StepCx, to: String, cents: u64) -> Result<u64> {
    let _ = (cx, to);
    Ok(cents)
}

#[step(effect = "read", approval = "required")]
async fn open_file(cx: &mut StepCx, patient: &str) -> Result<String> {
    let _ = cx;
    Ok(patient.to_owned())
}

#[test]
fn approval_is_declared_for_every_call_or_by_arguments() {
    assert_eq!(open_file::DEF.options.approval, Approval::Required);
    assert_eq!(pay_out::DEF.options.approval, Approval::ByArguments);
    let needed = |to: &str, cents| pay_out::needs_approval(&(to.to_owned(), cents));
    assert_eq!([needed("a", 10_001), needed("a", 10_000), needed("house", 10_001)], [true, false, false]);
}
