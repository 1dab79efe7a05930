//! A call as it is recorded, made anew without the workflow that asked for it.
//!
//! Promise: it follows from what is recorded and from the declaration of its step, and appends nothing by itself.

use std::sync::Arc;

use crate::journal::history::record::CommandRecord;
use crate::perform::approval::edited;
use crate::perform::attempts::step_call;
use crate::perform::call::{CallSpec, CountsIn, StepCall, any_answer};
use crate::run::claim::Run;

/// The call that is recorded, by the declaration of its step; `None` where that is not linked.
pub(crate) fn recorded_call(run: &Arc<Run>, record: &CommandRecord) -> Option<StepCall> {
    let step = run.shared.steps.get(record.path.as_deref()?)?;
    let call = CallSpec {
        name: step.def.name.into(),
        path: step.def.path.into(),
        options: step.def.options,
        args: Ok(edited(record).or_else(|| record.input.clone())?),
        body: step.body(),
        readable: any_answer,
        counts_in: CountsIn::Nothing,
        limit: None,
    };
    step_call(run, record.command.clone(), None, call).ok()
}
