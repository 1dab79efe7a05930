//! One question to an agent's model, as the body of a recorded command.

use std::pin::pin;

use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{Body, BodyResult, StepCx};
use aether_effects::recorded_error::body_error;
use futures_util::future::{BoxFuture, Either, select};
use rig_core::completion::{CompletionRequest, CompletionResponse};
use serde::{Deserialize, Serialize};

use crate::agents::RigAgents;
use crate::error::ModelFailed;

/// The recorded arguments: the whole question.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ModelArgs {
    pub(crate) agent: String,
    pub(crate) request: CompletionRequest,
}

/// The body of a question.
pub(crate) struct AskModel;

impl Body for AskModel {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let args = args.decode::<ModelArgs>();
        Box::pin(async move {
            match ask(&cx, args?).await {
                Ok(answer) => Ok(Ok(Payload::encode(&answer)?)),
                Err(error) => Ok(Err(body_error(error)?)),
            }
        })
    }

    fn check(&self, args: &Payload) -> Result<(), PayloadError> {
        args.decode::<ModelArgs>().map(drop)
    }

    /// A question that an older version of rig recorded is the same one if this version writes it so.
    fn canonical_args(&self, args: &Payload) -> Result<Payload, PayloadError> {
        Payload::encode(&args.decode::<ModelArgs>()?)
    }

    fn accepts(&self, value: &Payload) -> Result<(), PayloadError> {
        value.decode::<CompletionResponse>().map(drop)
    }
}

async fn ask(cx: &StepCx, args: ModelArgs) -> Result<CompletionResponse, ModelFailed> {
    let ModelArgs { agent, request } = args;
    let agents = cx.dep::<RigAgents>().map_err(|error| ModelFailed::missing(&agent, "agent", error))?;
    let served = agents.get(&agent)?;
    match select(pin!(served.ask(request)), pin!(cx.cancelled())).await {
        Either::Left((answer, _)) => answer.map_err(|report| ModelFailed::reported(&agent, &report)),
        Either::Right(_) => Err(ModelFailed::dropped(&agent)),
    }
}
