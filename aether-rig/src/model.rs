//! One question to an agent's model, as the body of a recorded command.

use std::pin::pin;

use aether_core::budget::{Spend, Spent};
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::{Body, BodyResult, Estimating, StepCx};
use aether_effects::recorded_error::body_error;
use futures_util::future::{BoxFuture, Either, select};
use rig_core::completion::{CompletionRequest, CompletionResponse, Usage};
use serde::{Deserialize, Serialize};

use crate::agents::RigAgents;
use crate::error::ModelFailed;

/// The recorded arguments: the whole question.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ModelArgs {
    pub(crate) agent: String,
    pub(crate) request: CompletionRequest,
}

/// Bytes of a question, as JSON, that are reckoned as one token: fewer than plain text of the usual scripts has.
const BYTES_OF_A_TOKEN: u64 = 3;
/// Tokens of an answer where the question does not limit them.
const ASSUMED_OUTPUT: u64 = 4_096;

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

    /// Tokens are reckoned by the length of the question. What rig's models cost is not known here.
    fn estimate(&self, args: &Payload, facts: &Estimating<'_>) -> Result<Spend, String> {
        if facts.currency.is_some() {
            return Err("what a model of rig costs is not known: limit its tokens or calls".into());
        }
        let question = (args.as_str().len() as u64).div_ceil(BYTES_OF_A_TOKEN);
        let limit = args.decode::<ModelArgs>().map_err(|error| error.to_string())?.request.max_tokens;
        Ok(Spend {
            calls: 1,
            tokens: question.saturating_add(limit.unwrap_or(ASSUMED_OUTPUT)),
            cost_nanos: 0,
        })
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
        Either::Left((answer, _)) => {
            let answer = answer.map_err(|report| ModelFailed::reported(&agent, &report))?;
            // Where the provider tells no usage, what was reserved counts.
            let Usage { total_tokens, input_tokens, output_tokens, .. } = answer.usage;
            let sum = input_tokens.zip(output_tokens).map(|(input, output)| input.saturating_add(output));
            let tokens = total_tokens.or(sum).filter(|tokens| *tokens > 0);
            cx.spent(Spent { calls: Some(1), tokens, cost_nanos: None });
            Ok(answer)
        }
        Either::Right(_) => Err(ModelFailed::dropped(&agent)),
    }
}
