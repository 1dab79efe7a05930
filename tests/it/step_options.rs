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

#[step(effect = "tool", compensate = close)]
async fn open(cx: &mut StepCx) -> Result<u32> {
    Ok(cx.attempt())
}

#[step(effect = "tool", idempotent)]
async fn close(cx: &mut StepCx, opened: Option<u32>) -> Result<()> {
    let _ = (cx, opened);
    Ok(())
}

struct Bank;

#[workflow]
impl Bank {
    #[step(effect = "external", compensate = Self::give_back)]
    async fn take(cx: &mut StepCx, from: &str, cents: u64) -> Result<String> {
        let _ = cx;
        Ok(format!("{from}:{cents}"))
    }

    #[step(effect = "external")]
    async fn give_back(cx: &mut StepCx, from: &str, cents: u64, receipt: Option<&str>) -> Result<()> {
        let _ = (cx, from, cents, receipt);
        Ok(())
    }
}

#[test]
fn the_undoing_step_gets_the_arguments_and_the_output() {
    assert!(open::DEF.options.compensated && !close::DEF.options.compensated);
    let undo = open::compensation((), Some(7)).unwrap();
    assert_eq!((undo.def.name, undo.args.unwrap().as_str()), ("close", r#"{"opened":7}"#));

    let undo = Bank_take::compensation(("a".to_owned(), 5), None).unwrap();
    assert_eq!(undo.def.path, Bank_give_back::DEF.path);
    assert_eq!(undo.args.unwrap().as_str(), r#"{"from":"a","cents":5,"receipt":null}"#);
}
