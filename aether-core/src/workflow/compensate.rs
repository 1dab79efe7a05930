//! `cx.compensate()`: undoing committed steps in the workflow's own code.
//!
//! Promise: steps are undone in the reverse order of their commitment, each by a recorded step of its own.

use std::sync::Arc;

use crate::journal::event::uncompensated::Uncompensated;
use crate::journal::event::{CommandCommitted, NodeFinished, NodeStarted, StepCommitted};
use crate::journal::obligations::COMPENSATE;
use crate::perform::undo::undo;
use crate::run::append::{AppendExtras, unencodable};
use crate::run::claim::Run;
use crate::run::matcher::Matched;
use crate::vocabulary::contract::Constraints;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::{EffectClass, Outcome};
use crate::vocabulary::payload::{Digest, Payload};
use crate::workflow::context::Cx;
use crate::workflow::gate::BoxEffect;

impl Cx {
    /// Undoes every committed step of this run that declares a compensation, the last one first; the workflow then
    /// continues. Returns the steps that could not be undone. They are named in the run's end too, and are not tried again.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let left = cx.compensate().await;
    /// assert!(left.is_empty(), "{left:?}");
    /// # }
    /// ```
    pub fn compensate(&mut self) -> BoxEffect<'_, Vec<Uncompensated>> {
        let mut ticket = self.ticket(COMPENSATE);
        BoxEffect::boxed(async move {
            let site = ticket.enter().await;
            let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
            let (listed, answered) = match run.request(&command, EffectClass::Pure, None, site.clone()).await
            {
                Matched::Answered => (run.recorded_input(&command), true),
                Matched::Begun(record) => (record.input, false),
                Matched::New => (None, false),
            };
            let listed = match listed.map(|input| input.decode::<Vec<CommandId>>()) {
                Some(Ok(listed)) => listed,
                Some(Err(_)) => return run.mismatched(&command, EffectClass::Pure, None).await,
                None => {
                    run.wait_for_frontier(&command).await;
                    list(&run, &command, site).await
                }
            };
            for undoes in &listed {
                undo(&run, undoes, Some(&command)).await;
            }
            let left = left_of(&run, &listed);
            if answered {
                // History holds this command's answer after those of the compensations.
                run.next_delivery(&command).await;
            } else {
                run.wait_for_frontier(&command).await;
                end(&run, &command, &left);
            }
            left
        })
    }
}

/// Records which steps are to be undone.
async fn list(run: &Run, command: &CommandId, site: Option<String>) -> Vec<CommandId> {
    let listed = run.with_obligations(|obligations| obligations.pending(false));
    let recorded = Payload::encode(&listed).and_then(|input| Ok((Digest::of(&input)?, input)));
    let (digest, input) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            return run.stop(unencodable(run, error)).await;
        }
    };
    let (command, class) = (command.clone(), EffectClass::Pure);
    let started = NodeStarted {
        command,
        class,
        digest,
        input: Some(input),
        path: None,
        site,
        constraints: Constraints::default(),
    };
    run.append(vec![started.into()], AppendExtras::default());
    listed
}

fn left_of(run: &Run, listed: &[CommandId]) -> Vec<Uncompensated> {
    let left = run.with_obligations(|obligations| obligations.uncompensated());
    left.into_iter().filter(|left| listed.contains(&left.step)).collect()
}

pub(crate) fn end(run: &Run, command: &CommandId, left: &[Uncompensated]) {
    let command = command.clone();
    let result = Payload::encode(left).ok();
    let committed = CommandCommitted {
        command: command.clone(),
        outcome: Outcome::Success,
        result,
        error: None,
        caught_up: false,
        spent: None,
    };
    let finished = NodeFinished { command: command.clone() };
    let complete = StepCommitted { command, step: COMPENSATE.into(), key: None };
    run.append(vec![committed.into(), finished.into(), complete.into()], AppendExtras::default());
}
