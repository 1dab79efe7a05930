//! The workflow that executes programs. Its result tells all that it saw.

use std::time::Duration;

use aether::prelude::*;

use super::program::{Call, Node, Part};
use super::steps::*;

/// Execute a block of a program.
#[workflow]
pub(crate) async fn interpret(cx: &mut Cx, part: Part) -> Result<Vec<String>> {
    let mut trace = Vec::new();
    let mut last = i64::from(part.salt);
    for node in &part.block {
        match node {
            Node::Call(call) => {
                let call = Call { salt: part.salt, ..call.clone() };
                let answered = dispatch(cx, call.clone()).await;
                trace.push(told(&call, &answered));
                match answered {
                    Ok(value) => last = value,
                    Err(_) if call.strict => return Err(Failure::permanent(told(&call, &answered))),
                    Err(_) => {}
                }
            }
            Node::Twice(call) => {
                let call = Call { salt: part.salt, ..call.clone() };
                let first = do_once(cx, call.clone()).await;
                let second = do_once(cx, call.clone()).await;
                trace.extend([told(&call, &first), told(&call, &second)]);
            }
            Node::IfLast(then, otherwise) => {
                let way = if last % 2 == 0 { then } else { otherwise };
                trace.extend(interpret(cx, part.of(way)).await?);
            }
            Node::IfRandom(then, otherwise) => {
                let way = if cx.random().await.is_multiple_of(2) { then } else { otherwise };
                trace.extend(interpret(cx, part.of(way)).await?);
            }
            Node::Repeat(times, block) => {
                for turn in 0..*times {
                    trace.extend(interpret(cx, part.turn(block, turn)).await?);
                }
            }
            Node::Inline(block) => trace.extend(interpret(cx, part.of(block)).await?),
            Node::Child(block) => match cx.child::<interpret>(part.of(block)).await {
                Ok(seen) => trace.push(format!("child {seen:?}")),
                Err(error) => trace.push(format!("child failed: {error}")),
            },
            Node::Start(block, meanwhile) => match cx.start_child::<interpret>(part.of(block)).await {
                Ok(child) => {
                    let seen = interpret(cx, part.of(meanwhile)).await;
                    match child.result(cx).await {
                        Ok(seen) => trace.push(format!("child {seen:?}")),
                        Err(error) => trace.push(format!("child failed: {error}")),
                    }
                    trace.extend(seen?);
                }
                Err(error) => trace.push(format!("child not started: {error}")),
            },
            Node::Detach(block) => match cx.start_child::<interpret>(part.of(block)).detached().await {
                Ok(child) => drop(child),
                Err(error) => trace.push(format!("child not started: {error}")),
            },
            Node::Plan(block) => {
                let plan = cx.plan("p", async |cx: &mut Cx| interpret(cx, part.of(block)).await);
                trace.extend(plan.await?);
            }
            Node::Ask => {
                let answer: u32 = cx.ask("how many?").await?;
                trace.push(format!("answer {answer}"));
            }
            Node::Join(a, b) => {
                let (a, b) = cx
                    .join((
                        async |cx: &mut Cx| interpret(cx, part.of(a)).await,
                        async |cx: &mut Cx| interpret(cx, part.of(b)).await,
                    ))
                    .await;
                trace.extend(a?);
                trace.extend(b?);
            }
            Node::Race(a, b) => {
                let (winner, seen) = cx
                    .race((
                        async |cx: &mut Cx| (0, interpret(cx, part.of(a)).await),
                        async |cx: &mut Cx| (1, interpret(cx, part.of(b)).await),
                    ))
                    .await;
                trace.push(format!("winner {winner}"));
                trace.extend(seen?);
            }
            Node::Each(items, limit, block) => {
                let turns = cx
                    .each(0..*items, async |cx: &mut Cx, turn| interpret(cx, part.turn(block, turn)).await)
                    .limit(*limit);
                for seen in turns.await {
                    trace.extend(seen?);
                }
            }
            Node::Sleep(units) => cx.sleep(Duration::from_millis(units * part.unit)).await,
            Node::Signal(number) => {
                let value: u32 = cx.signal(&format!("s{number}")).await?;
                trace.push(format!("signal {value}"));
            }
            Node::Now => drop(cx.now().await),
            Node::Uuid => drop(cx.uuid().await),
        }
    }
    Ok(trace)
}

/// Call the step of this kind.
#[workflow]
async fn dispatch(cx: &mut Cx, call: Call) -> Result<i64, StepError> {
    match call.kind {
        Kind::Read => read_it(cx, call).await,
        Kind::Llm => ask_model(cx, call).await,
        Kind::Tool => tool_or_fail(cx, call).await,
        Kind::ToolAsk => tool_or_ask(cx, call).await,
        Kind::ToolRetry => tool_again(cx, call).await,
        Kind::ToolProbe => tool_or_look(cx, call).await,
        Kind::External => external_or_fail(cx, call).await,
        Kind::ExternalAsk => external_or_ask(cx, call).await,
        Kind::ExternalRetry => external_again(cx, call).await,
        Kind::ExternalProbe => external_or_look(cx, call).await,
        Kind::Http => http_or_fail(cx, call).await,
        Kind::HttpAsk => http_or_ask(cx, call).await,
        Kind::HttpRetry => http_again(cx, call).await,
        Kind::HttpProbe => http_or_look(cx, call).await,
        Kind::Once => do_once(cx, call).await,
        Kind::OnceInStore => do_once_in_store(cx, call).await,
        Kind::Approved => send_approved(cx, call).await,
        Kind::CalledBack => report_later(cx, call).await,
        Kind::Confirmed => change_file(cx, call).await,
        Kind::Compensated => pay(cx, call).await,
        Kind::Refund => refund(cx, call, None).await,
        Kind::Booked => book(cx, call).await,
        Kind::Pure => compute(cx, call).await,
    }
}

/// What a workflow tells of a call.
pub(crate) fn told(call: &Call, answered: &Result<i64, StepError>) -> String {
    let id = call.id;
    match answered {
        Ok(value) => format!("{id} = {value}"),
        Err(StepError::App(failure)) => format!("{id}: {failure}"),
        Err(StepError::Exhausted(failure)) => format!("{id}: no attempt left: {failure}"),
        Err(StepError::TimedOut(_)) => format!("{id} timed out"),
        Err(StepError::Rejected(_) | StepError::Taken(_)) => format!("{id} rejected"),
        Err(StepError::InDoubt(_)) => format!("{id} in doubt"),
        Err(StepError::Panicked(_)) => format!("{id} panicked"),
        Err(other) => format!("{id}: {other}"),
    }
}
