//! One exchange on the wire, bounded in time and size, with errors that tell whether anything was sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aether_core::payload::Payload;
use bytes::Bytes;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;

use super::client::HttpClient;
use super::draft::Draft;
use super::error::{Exchange, HttpError};
use super::mask;
use super::response::{Body, HttpResponse};
use crate::cassette::interaction::CallKind;
use crate::recorded_error::chain;

/// Sends `draft` and reads the whole answer, by way of the client's cassette if it has one.
pub(crate) async fn send(client: &HttpClient, draft: &Draft) -> Result<HttpResponse, HttpError> {
    let Some(cassette) = client.settings.cassette.as_ref().filter(|_| draft.is_whole()) else {
        return transmit(client, draft).await;
    };
    let asked = draft.asked().map_err(|error| draft.invalid(error))?;
    match cassette.answer(CallKind::Http, &asked) {
        Ok(Some(answer)) => answer.decode().map_err(|error| draft.invalid(error)),
        Ok(None) => {
            let response = transmit(client, draft).await?;
            if let Ok(answer) = Payload::encode(&response) {
                cassette.keep(CallKind::Http, &asked, &answer);
            }
            Ok(response)
        }
        Err(refusal) => Err(HttpError::NotRecorded { exchange: draft.exchange(), refusal }),
    }
}

/// Sends `draft` over the network, and reads the whole answer.
async fn transmit(client: &HttpClient, draft: &Draft) -> Result<HttpResponse, HttpError> {
    open(client, draft).await?.whole().await
}

/// An answer whose body is still to be read.
pub(crate) struct Arriving {
    response: Response,
    exchange: Exchange,
    timeout: Duration,
    limit: usize,
    read: Arc<AtomicUsize>,
    /// Status and recorded headers.
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Arriving {
    /// Whether the server sends events.
    pub(crate) fn is_event_stream(&self) -> bool {
        let kind = self.response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    }

    /// The next piece of the body.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        let failed = |error| transport_error(self.exchange.clone(), self.timeout, error);
        let piece = self.response.chunk().await.map_err(failed)?;
        let length = piece.as_ref().map_or(0, Bytes::len);
        if self.read.fetch_add(length, Ordering::Relaxed).saturating_add(length) > self.limit {
            return Err(self.too_large());
        }
        Ok(piece)
    }

    /// How many bytes have been read. A reader that keeps none of them sets it back: the limit is for what is kept.
    pub(crate) fn read(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.read)
    }

    /// The error of an answer that is larger than the client allows, if it has more bytes than that.
    pub(crate) fn limit_to(&self) -> (usize, HttpError) {
        (self.limit, self.too_large())
    }

    /// Reads the rest.
    pub(crate) async fn whole(mut self) -> Result<HttpResponse, HttpError> {
        if self.response.content_length().is_some_and(|length| length > self.limit as u64) {
            return Err(self.too_large());
        }
        let mut body = Vec::new();
        while let Some(piece) = self.next().await? {
            body.extend_from_slice(&piece);
        }
        let Exchange { method, url } = self.exchange;
        Ok(HttpResponse { method, url, status: self.status, headers: self.headers, body: Body::of(body) })
    }

    fn too_large(&self) -> HttpError {
        HttpError::TooLarge { exchange: self.exchange.clone(), limit: self.limit }
    }
}

/// Sends `draft` over the network, whatever cassette the client has; returns when the head of the answer is there.
pub(crate) async fn open(client: &HttpClient, draft: &Draft) -> Result<Arriving, HttpError> {
    let url = match (&draft.url, &draft.problem) {
        (Ok(url), None) => url,
        (_, problem) => return Err(draft.invalid(problem.as_deref().unwrap_or("not a URL"))),
    };
    let settings = &client.settings;
    let timeout = draft.timeout.unwrap_or(settings.timeout);
    let mut headers = draft.headers.clone();
    client.authorize(url, &mut headers);
    let connections = client.connections_for(&draft.method, &headers);
    let mut request =
        connections.request(draft.method.clone(), url.clone()).headers(headers).timeout(timeout);
    if let Some(body) = &draft.body {
        request = request.body(body.clone());
    }
    let failed = |error| transport_error(draft.exchange(), timeout, error);
    let response = request.send().await.map_err(failed)?;
    let (status, headers) =
        (response.status().as_u16(), mask::headers(response.headers(), &settings.recorded, response.url()));
    let (exchange, limit) = (draft.exchange(), settings.max_body);
    Ok(Arriving { response, exchange, timeout, limit, read: Arc::default(), status, headers })
}

/// What an error of the transport means. Its own text may hold the URL, secrets included.
fn transport_error(exchange: Exchange, timeout: Duration, error: reqwest::Error) -> HttpError {
    let error = error.without_url();
    let reason = chain(&error);
    if error.is_builder() || error.is_redirect() {
        HttpError::Invalid { exchange, reason }
    } else if error.is_connect() {
        HttpError::NotConnected { exchange, reason }
    } else if error.is_timeout() {
        HttpError::Timeout { exchange, timeout }
    } else {
        HttpError::Lost { exchange, reason }
    }
}
