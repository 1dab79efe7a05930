//! What `#[step(..)]` says beyond the effect class, as the engine finds it: in the definition and in the step's own
//! functions.

use std::time::Duration;

use aether::definition::Step;
use aether::definition::{Approval, Confirm, KeyScope, Retry};
use aether::effect::EffectClass;
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

#[step(effect = "tool", irreversible, scope = "store", key = |order| order)]
async fn ship(cx: &mut StepCx, order: &str) -> Result<()> {
    let _ = (cx, order);
    Ok(())
}

#[test]
fn a_business_key_is_unique_in_its_scope() {
    assert_eq!((ship::DEF.options.scope, open::DEF.options.scope), (KeyScope::Store, KeyScope::Run));
}

#[step(effect = "http", changes = ["http", "file"], confirm = "warn")]
async fn upload<T: aether::definition::Recordable>(cx: &mut StepCx, what: T) -> Result<()> {
    let _ = (cx, what);
    Ok(())
}

#[test]
fn what_a_body_changes_and_how_it_is_confirmed_is_declared() {
    // A generic step is not registered, so that the engines of the other tests need no verifiers for it.
    let options = &upload::<u8>::DEF.options;
    assert_eq!((options.changes, options.confirm), (&["http", "file"][..], Confirm::Warn));
    assert_eq!((open::DEF.options.changes, open::DEF.options.confirm), (&[][..], Confirm::Strict));
}

#[step(effect = "read", heartbeat = "10s", timeout = "5m")]
async fn crawl(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[test]
fn heartbeats_are_expected_where_declared() {
    assert_eq!(crawl::DEF.options.heartbeat, Some(Duration::from_secs(10)));
    assert_eq!(open::DEF.options.heartbeat, None);
}

#[step(effect = "transaction", retry(max_retries = 2), compensate = unbook)]
async fn book(cx: &mut StepCx, seat: u32) -> Result<String> {
    Ok(format!("{seat} at {} as {}", cx.now(), cx.uuid()))
}

#[step(effect = "transaction")]
async fn unbook(cx: &mut StepCx, seat: u32, booking: Option<String>) -> Result<()> {
    let _ = (cx, seat, booking);
    Ok(())
}

#[test]
fn a_transaction_is_a_class_of_its_own() {
    let options = &book::DEF.options;
    assert_eq!(
        (options.class, options.retry().attempts(), options.compensated),
        (EffectClass::Transaction, 3, true)
    );
}

#[step(effect = "read", retry(max_retries = 1, jitter = 0.5))]
async fn poll_once(cx: &mut StepCx) -> Result<()> {
    let _ = cx;
    Ok(())
}

#[test]
fn jitter_is_a_fraction_of_the_wait() {
    assert_eq!(poll_once::DEF.options.retry, Some(Retry { jitter: 0.5, ..Retry::times(1) }));
}

/// What a model sees of a step are its arguments: how it is executed is declared in the source alone.
#[test]
fn the_schema_of_a_tool_has_no_way_to_change_how_the_step_is_executed() {
    let schema = ship::tool().schema;
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["order"]);
    assert_eq!(schema["additionalProperties"], false);
}
