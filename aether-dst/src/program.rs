//! The programs of stories as workflows: each operation is a command, and what it gave is written down.
//!
//! Promise: a workflow's result says what every command gave it, so that a judge can compare it with the program.

use std::time::Duration;

use aether_core::failure::{Failure, Result, StepError};
use aether_core::step::StepCx;
use aether_core::workflow::{BoxEffect, ChildRun, Cx};
use aether_macros::{step, workflow};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judge;
use crate::sim;
use crate::story::{Op, Undone};
use crate::world::sleep;

mod making;

/// The names that generated code uses.
pub mod aether {
    pub use aether_core::private as __private;
}

/// Where the steps are declared.
pub const PATH: &str = module_path!();

/// What one operation gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Got {
    /// The number of the signal.
    Signal(u64),
    /// No signal came in time.
    Expired,
    /// It slept, or holds something.
    Done,
    /// The number that the body returned.
    Value(u64),
    /// The step's error.
    Error(String),
    /// Another call, of this run, holds the key.
    Taken(String),
    /// The numbers that several bodies returned.
    Values(Vec<u64>),
    /// The branch that won, and what it got.
    Race(u8, Vec<Got>),
    /// What both branches got.
    Join(Vec<Got>, Vec<Got>),
    /// What the child got.
    Child(Vec<Got>),
    /// So many steps could not be undone.
    Left(usize),
    /// What the generations before got.
    Earlier(Vec<Got>),
}

/// What a program holds.
struct Held(bool);

impl Drop for Held {
    fn drop(&mut self) {
        (0..4).for_each(|_| sim::point("destructor"));
        if self.0 && !std::thread::panicking() && !sim::is_over() {
            std::panic::resume_unwind(Box::new("a destructor panics"));
        }
    }
}

/// Changes the world.
#[step(effect = "tool", crate = "crate::program::aether")]
async fn tool(cx: &mut StepCx, span: u64) -> Result<u64> {
    let body = judge::called(cx.run_id().as_str(), cx.idempotency_key().as_str());
    sleep(span * 1_000).await;
    Ok(body.returns())
}

/// Changes the world after an approval.
#[step(effect = "tool", approval = "required", crate = "crate::program::aether")]
async fn approved(cx: &mut StepCx, span: u64) -> Result<u64> {
    let body = judge::called(cx.run_id().as_str(), cx.idempotency_key().as_str());
    sleep(span * 1_000).await;
    Ok(body.returns())
}

/// Leaves its outcome to a callback.
#[step(effect = "tool", crate = "crate::program::aether")]
async fn handed_over(cx: &mut StepCx) -> Result<u64> {
    let body = judge::called(cx.run_id().as_str(), cx.idempotency_key().as_str());
    let callback = cx.callback()?;
    judge::hand_over(callback.token().to_owned(), body.returns());
    Err(callback.pending().into())
}

/// Changes the world, once for each key in the whole store.
#[step(effect = "tool", irreversible, scope = "store", key = |key| key, crate = "crate::program::aether")]
async fn once(cx: &mut StepCx, key: &str, span: u64, fails: bool) -> Result<u64> {
    let body = judge::called_once(cx.run_id().as_str(), cx.idempotency_key().as_str(), key);
    sleep(span * 1_000).await;
    match fails {
        true => Err(body.fails()),
        false => Ok(body.returns()),
    }
}

async fn looks_and_panics(_cx: &mut StepCx) -> Result<aether_core::definition::def::Probe<u64>> {
    std::panic::resume_unwind(Box::new("the probe panics"))
}

/// Does not know its outcome.
#[step(effect = "tool", on_unknown = "probe", probe = looks_and_panics, crate = "crate::program::aether")]
async fn unseen(cx: &mut StepCx) -> Result<u64> {
    judge::called(cx.run_id().as_str(), cx.idempotency_key().as_str()).returns();
    Err(Failure::unknown("no answer"))
}

/// Reads.
#[step(effect = "read", crate = "crate::program::aether")]
async fn read(cx: &mut StepCx, span: u64) -> Result<u64> {
    let value = judge::reads(cx.run_id().as_str());
    sleep(span * 1_000).await;
    Ok(value)
}

/// A program of a story.
#[workflow(crate = "crate::program::aether")]
pub async fn story(cx: &mut Cx, program: Vec<Op>) -> Result<Vec<Got>> {
    let last = program.last().cloned();
    let got = interpreted(cx, program).await;
    match last {
        Some(Op::Fail) => Err(Failure::permanent("enough")),
        Some(Op::Continue(rest)) => cx.continue_as_new::<story>(continued(got, rest)).await,
        _ => Ok(got),
    }
}

/// The program of the next generation, which begins with what was got so far.
fn continued(got: Vec<Got>, rest: Vec<Op>) -> Vec<Op> {
    std::iter::once(Op::Earlier(got)).chain(rest).collect()
}

/// Beside the workflow, because the commands of a program are not written in it.
fn interpreted(cx: &mut Cx, program: Vec<Op>) -> BoxEffect<'_, Vec<Got>> {
    cx.scoped(move |cx| interpret(cx, program))
}

fn interpret(mut cx: Cx, program: Vec<Op>) -> BoxFuture<'static, Vec<Got>> {
    Box::pin(async move {
        let (mut got, mut held, mut kids) = (Vec::new(), Vec::new(), Vec::new());
        for op in program {
            if let Op::Hold(panics) = op {
                held.push(Held(panics));
            }
            let one = command(&mut cx, op, &mut kids).await;
            got.push(one);
        }
        for kid in kids {
            got.push(of_child(kid.result(&mut cx).await));
        }
        // Only an eviction or a drop in the middle sets it off.
        held.iter_mut().for_each(|held| held.0 = false);
        got
    })
}

async fn command(cx: &mut Cx, op: Op, kids: &mut Vec<ChildRun<story>>) -> Got {
    match op {
        Op::Signal(name) => of_signal(cx.signal(&format!("s{name}")).await),
        Op::SignalWithin(name, span) => {
            of_signal(cx.signal(&format!("s{name}")).timeout(Duration::from_millis(span)).await)
        }
        Op::Sleep(span) => {
            cx.sleep(Duration::from_millis(span)).await;
            Got::Done
        }
        Op::Tool(span) => of_step(tool(cx, span).await),
        Op::Approved(span) => of_step(approved(cx, span).await),
        Op::Callback => of_step(handed_over(cx).await),
        Op::Unseen => of_step(unseen(cx).await),
        Op::Once(key, span, fails) => match once(cx, &format!("k{key}"), span, fails).await {
            Err(StepError::Taken(holder)) => Got::Taken(holder.run.to_string()),
            answered => of_step(answered),
        },
        Op::Read(span) => of_step(read(cx, span).await),
        Op::Reads(count, span) => {
            let mut values = Vec::new();
            for _ in 0..count {
                match read(cx, span).await {
                    Ok(value) => values.push(value),
                    Err(error) => return Got::Error(error.to_string()),
                }
            }
            Got::Values(values)
        }
        Op::Race(a, b) => {
            cx.race((
                async move |cx: &mut Cx| Got::Race(0, cx.scoped(move |cx| interpret(cx, a)).await),
                async move |cx: &mut Cx| Got::Race(1, cx.scoped(move |cx| interpret(cx, b)).await),
            ))
            .await
        }
        Op::Join(a, b) => {
            let (a, b) = cx
                .join((
                    async move |cx: &mut Cx| cx.scoped(move |cx| interpret(cx, a)).await,
                    async move |cx: &mut Cx| cx.scoped(move |cx| interpret(cx, b)).await,
                ))
                .await;
            Got::Join(a, b)
        }
        Op::Child(id, program) => of_child(cx.child::<story>(program).id(id).await),
        Op::StartChild(id, program, awaited) => match cx.start_child::<story>(program).id(id).await {
            Ok(kid) => {
                if awaited {
                    kids.push(kid);
                }
                Got::Done
            }
            Err(error) => Got::Error(error.to_string()),
        },
        Op::Make(number, how, span) => of_step(making::made(cx, number, how, span).await),
        Op::HalfWay(number, span) => of_step(making::make(cx, number, Undone::Once, span, true).await),
        Op::Undo => Got::Left(cx.compensate().await.len()),
        Op::Expiring(span, limit) => of_step(making::handed_over_for(cx, span, limit).await),
        Op::Earlier(got) => Got::Earlier(got),
        Op::Hold(_) | Op::Fail | Op::Continue(_) => Got::Done,
    }
}

fn of_signal(received: Result<String, StepError>) -> Got {
    match received {
        Ok(value) => match value.split(':').next().and_then(|number| number.parse().ok()) {
            Some(number) => Got::Signal(number),
            None => Got::Error(format!("a signal nobody sent: {value}")),
        },
        Err(StepError::TimedOut(_)) => Got::Expired,
        Err(error) => Got::Error(error.to_string()),
    }
}

fn of_step(answered: Result<u64, StepError>) -> Got {
    match answered {
        Ok(value) => Got::Value(value),
        Err(error) => Got::Error(error.to_string()),
    }
}

fn of_child(ended: Result<Vec<Got>, StepError>) -> Got {
    match ended {
        Ok(got) => Got::Child(got),
        Err(error) => Got::Error(error.to_string()),
    }
}
