//! An exchange in a body, noted so that the journal holds it with the outcome.

use std::pin::pin;
use std::time::Duration;

use aether_core::payload::{Payload, PayloadError};
use aether_core::step::StepCx;
use futures_util::future::{Either, select};
use reqwest::Url;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::client::HttpClient;
use super::download::Download;
use super::draft::Draft;
use super::error::HttpError;
use super::exchange::{open_slow, send_in};
use super::hosts::Place;
use super::keeping::keep;
use super::response::{HttpResponse, is_turned_away};

/// Bodies up to this size are recorded with an exchange made in a step's body, in bytes.
const NOTED_BODY: usize = 4 << 10;

/// What a request gives.
pub(crate) trait Answer: Serialize + DeserializeOwned + Send + Sized + 'static {
    /// Sends `draft`, and reads the answer.
    fn ask(
        cx: &StepCx,
        client: &HttpClient,
        draft: &Draft,
    ) -> impl Future<Output = Result<Self, HttpError>> + Send;

    /// Why a request for it is not sent.
    fn refused(_cx: &StepCx, _client: &HttpClient, _draft: &Draft) -> Option<HttpError> {
        None
    }

    /// The answer, unless it is about the idempotency key of the request.
    fn unless_about_key(self) -> Result<Self, HttpError>;

    /// The answer, unless its status is an error.
    fn error_for_status(self) -> Result<Self, HttpError>;

    /// The URL that answered, where it is another one.
    fn redirected_to(&self) -> Option<&str>;

    /// Its status, and how long the server asks to wait.
    fn said(&self) -> (u16, Option<Duration>);

    /// What is recorded of it where it is not the whole outcome.
    fn noted(&self) -> Result<Payload, PayloadError>;
}

impl Answer for HttpResponse {
    async fn ask(cx: &StepCx, client: &HttpClient, draft: &Draft) -> Result<Self, HttpError> {
        send_in(Some(cx), client, draft).await
    }

    fn unless_about_key(self) -> Result<Self, HttpError> {
        Self::unless_about_key(self)
    }

    fn error_for_status(self) -> Result<Self, HttpError> {
        Self::error_for_status(self)
    }

    fn redirected_to(&self) -> Option<&str> {
        self.redirected_to.as_deref()
    }

    fn said(&self) -> (u16, Option<Duration>) {
        (self.status, self.retry_after())
    }

    fn noted(&self) -> Result<Payload, PayloadError> {
        if self.body.recorded_len() <= NOTED_BODY {
            return Payload::encode(self);
        }
        let mut noted = serde_json::json!({
            "method": self.method, "url": self.url, "status": self.status, "headers": self.headers,
            "body_bytes": self.body.recorded_len(),
        });
        if let Some(redirected_to) = &self.redirected_to {
            noted["redirected_to"] = redirected_to.as_str().into();
        }
        Payload::encode(&noted)
    }
}

impl Answer for Download {
    async fn ask(cx: &StepCx, client: &HttpClient, draft: &Draft) -> Result<Self, HttpError> {
        // A cassette holds answers as values.
        if client.settings.cassette.is_some() {
            return send_in(Some(cx), client, draft).await.map(Self::from);
        }
        if let Some(refused) = Self::refused(cx, client, draft) {
            return Err(refused);
        }
        let limit = usize::try_from(client.settings.max_download).unwrap_or(usize::MAX);
        keep(cx, open_slow(cx, client, draft, limit).await?).await
    }

    fn refused(cx: &StepCx, client: &HttpClient, draft: &Draft) -> Option<HttpError> {
        let is_kept = client.settings.cassette.is_none();
        let is_refused = is_kept && cx.redacts() && !draft.unredacted;
        is_refused.then(|| HttpError::Unredacted { exchange: draft.exchange() })
    }

    fn unless_about_key(self) -> Result<Self, HttpError> {
        Self::unless_about_key(self)
    }

    fn error_for_status(self) -> Result<Self, HttpError> {
        Self::error_for_status(self)
    }

    fn redirected_to(&self) -> Option<&str> {
        self.redirected_to.as_deref()
    }

    fn said(&self) -> (u16, Option<Duration>) {
        (self.status, self.retry_after())
    }

    fn noted(&self) -> Result<Payload, PayloadError> {
        Payload::encode(self)
    }
}

/// Makes one exchange and notes it. With `whole`, the exchange is all that its body does: the answer is noted exactly as it
/// is returned, the request without its body, which the command's arguments hold, and the host has let it through.
pub(crate) async fn exchange_and_note<A: Answer>(
    cx: &StepCx,
    mut draft: Draft,
    whole: bool,
) -> Result<Result<A, HttpError>, PayloadError> {
    let client = match HttpClient::of(cx.provided::<HttpClient>().as_deref()) {
        Ok(client) => client,
        Err(reason) => return Ok(Err(draft.invalid(reason))),
    };
    if !draft.method.is_safe() && !draft.headers.contains_key("idempotency-key") {
        let key = if whole { cx.idempotency_key().to_string() } else { cx.request_key(&draft.asks()) };
        draft.header("idempotency-key", &key, false);
    }
    draft.trace = cx.trace_context();
    let place = if whole { Ok(None) } else { await_host(cx, &client, &draft).await };
    // After the wait: nothing that a body left behind may act in its name.
    let place = if cx.is_over() { Err(stopped(cx, &draft)) } else { place };
    let answer = match place {
        Ok(_place) => answer(cx, &client, &draft).await,
        Err(error) => Err(error),
    };
    let answer = if whole { answer.and_then(|answer| unless_turned_away(cx, answer)) } else { answer };
    let request = draft.record(&client.settings.recorded, if whole { 0 } else { NOTED_BODY })?;
    let response = match &answer {
        Ok(answer) if whole => Payload::encode(answer)?,
        Ok(answer) => A::noted(answer)?,
        Err(error) => Payload::encode(&serde_json::json!({ "error": error.to_string() }))?,
    };
    cx.note_http(request, response);
    Ok(answer)
}

/// The answer, unless the server took a request that is sent again for one that it cannot serve now: that says nothing about
/// the sending before, and must not be the outcome.
fn unless_turned_away<A: Answer>(cx: &StepCx, answer: A) -> Result<A, HttpError> {
    if cx.is_sent_again() && is_turned_away(answer.said().0) { answer.error_for_status() } else { Ok(answer) }
}

/// Waits until the host lets the request through. Nothing was sent: a run that is cancelled waits for nothing.
async fn await_host(cx: &StepCx, client: &HttpClient, draft: &Draft) -> Result<Option<Place>, HttpError> {
    let Ok(url) = draft.url.as_ref() else { return Ok(None) };
    // If the step ended in the wait by its own timeout, nobody would know that nothing was sent.
    let of_step = cx.contract().timeout().map_or(Duration::MAX, |timeout| timeout / 2);
    let patience = draft.timeout.unwrap_or(client.settings.timeout).min(of_step);
    let entered = timeout(patience, client.hosts.enter(url, patience));
    let exchange = || draft.exchange();
    match select(pin!(entered), pin!(cx.cancelled())).await {
        Either::Left((Ok(Ok(place)), _)) => Ok(Some(place)),
        Either::Left((Ok(Err(left)), _)) => Err(HttpError::Held { exchange: exchange(), left }),
        Either::Left((Err(_), _)) => Err(HttpError::Queued { exchange: exchange(), waited: patience }),
        Either::Right(_) => Err(stopped(cx, draft)),
    }
}

/// Why a request is not sent, or not waited for, when its body is to stop.
fn stopped(cx: &StepCx, draft: &Draft) -> HttpError {
    let exchange = draft.exchange();
    if cx.is_over() { HttpError::Over { exchange } } else { HttpError::Cancelled { exchange } }
}

async fn answer<A: Answer>(cx: &StepCx, client: &HttpClient, draft: &Draft) -> Result<A, HttpError> {
    let answer = ask_unless_cancelled::<A>(cx, client, draft).await?;
    let (status, retry_after) = answer.said();
    // Whoever answered asks to be left alone.
    let elsewhere = answer.redirected_to().and_then(|url| Url::parse(url).ok());
    if let Some(url) = elsewhere.as_ref().or(draft.url.as_ref().ok()) {
        client.hosts.note(url, status, retry_after);
    }
    if draft.method.is_safe() { Ok(answer) } else { A::unless_about_key(answer) }
}

/// A request that changes nothing is dropped when the run is cancelled; one that may is waited for, so that its outcome
/// is known.
async fn ask_unless_cancelled<A: Answer>(
    cx: &StepCx,
    client: &HttpClient,
    draft: &Draft,
) -> Result<A, HttpError> {
    if !draft.method.is_safe() {
        return A::ask(cx, client, draft).await;
    }
    match select(pin!(A::ask(cx, client, draft)), pin!(cx.cancelled())).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(stopped(cx, draft)),
    }
}
