//! An exchange in the body of a step, noted so that the journal holds it with the step's outcome.

use std::pin::pin;

use aether_core::payload::{Payload, PayloadError};
use aether_core::step::StepCx;
use futures_util::future::{Either, select};

use super::client::HttpClient;
use super::draft::Draft;
use super::error::HttpError;
use super::exchange::send;
use super::response::HttpResponse;

/// Bodies up to this size are recorded with an exchange made in a step's body, in bytes.
const NOTED_BODY: usize = 4 << 10;

/// Makes one exchange and notes it. With `whole`, the response is noted exactly as it is returned, and the request
/// without its body, which the command's arguments hold.
pub(crate) async fn exchange_and_note(
    cx: &StepCx,
    mut draft: Draft,
    whole: bool,
) -> Result<Result<HttpResponse, HttpError>, PayloadError> {
    let client = match cx.provided::<HttpClient>() {
        Some(client) => HttpClient::clone(&client),
        None => match HttpClient::shared() {
            Ok(client) => client,
            Err(reason) => return Ok(Err(draft.invalid(reason))),
        },
    };
    if !draft.method.is_safe() && !draft.headers.contains_key("idempotency-key") {
        draft.header("idempotency-key", &cx.next_request_key(), false);
    }
    let mut answer = send_unless_cancelled(cx, &client, &draft).await;
    if !draft.method.is_safe() {
        answer = answer.and_then(HttpResponse::unless_about_key);
    }
    let request = draft.record(&client.settings.recorded, if whole { 0 } else { NOTED_BODY })?;
    cx.note_http(request, answer_record(&answer, whole)?);
    Ok(answer)
}

/// A request that changes nothing is dropped when the run is cancelled; one that may is waited for, so that its outcome
/// is known.
async fn send_unless_cancelled(
    cx: &StepCx,
    client: &HttpClient,
    draft: &Draft,
) -> Result<HttpResponse, HttpError> {
    if !draft.method.is_safe() {
        return send(client, draft).await;
    }
    match select(pin!(send(client, draft)), pin!(cx.cancelled())).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(HttpError::Cancelled { exchange: draft.exchange() }),
    }
}

/// What is recorded of an answer.
fn answer_record(answer: &Result<HttpResponse, HttpError>, whole: bool) -> Result<Payload, PayloadError> {
    match answer {
        Ok(response) if whole || response.body.recorded_len() <= NOTED_BODY => Payload::encode(response),
        Ok(HttpResponse { method, url, status, headers, body }) => Payload::encode(&serde_json::json!({
            "method": method, "url": url, "status": status, "headers": headers, "body_bytes": body.recorded_len(),
        })),
        Err(error) => Payload::encode(&serde_json::json!({ "error": error.to_string() })),
    }
}
