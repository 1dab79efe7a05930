//! One exchange on the wire, bounded in time and size, with errors that tell whether anything was sent.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aether_core::payload::Payload;
use aether_core::step::StepCx;
use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, Response, Url};

use super::client::HttpClient;
use super::draft::Draft;
use super::error::{Exchange, HttpError};
use super::mask;
use super::response::{Body, HttpResponse};
use super::upload::Moved;
use crate::cassette::interaction::CallKind;
use crate::recorded_error::chain;

/// Sends `draft` and reads the whole answer, by way of the client's cassette if it has one.
pub(crate) async fn send(client: &HttpClient, draft: &Draft) -> Result<HttpResponse, HttpError> {
    send_in(None, client, draft).await
}

/// As [`send`], in a body that may have something to upload.
pub(crate) async fn send_in(
    cx: Option<&StepCx>,
    client: &HttpClient,
    draft: &Draft,
) -> Result<HttpResponse, HttpError> {
    let Some(cassette) = client.settings.cassette.as_ref().filter(|_| draft.is_whole()) else {
        return transmit(cx, client, draft).await;
    };
    let asked = draft.asked().map_err(|error| draft.invalid(error))?;
    match cassette.answer(CallKind::Http, &asked) {
        Ok(Some(answer)) => answer.decode().map_err(|error| draft.invalid(error)),
        Ok(None) => {
            let response = transmit(cx, client, draft).await?;
            if let Ok(answer) = Payload::encode(&response) {
                cassette.keep(CallKind::Http, &asked, &answer);
            }
            Ok(response)
        }
        Err(refusal) => Err(HttpError::NotRecorded { exchange: draft.exchange(), refusal }),
    }
}

/// Sends `draft` over the network, and reads the whole answer.
async fn transmit(
    cx: Option<&StepCx>,
    client: &HttpClient,
    draft: &Draft,
) -> Result<HttpResponse, HttpError> {
    match (cx, &draft.upload) {
        (Some(cx), Some(_)) => open_slow(cx, client, draft, client.settings.max_body).await?.whole().await,
        _ => open(client, draft).await?.whole().await,
    }
}

/// An answer whose body is still to be read.
pub(crate) struct Arriving {
    response: Response,
    pub(crate) exchange: Exchange,
    /// For the whole exchange; where it is slow, for each piece.
    timeout: Duration,
    is_slow: bool,
    limit: usize,
    read: Arc<AtomicUsize>,
    /// The URL that answered, where redirects led to another one.
    pub(crate) redirected_to: Option<String>,
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
        let piece = if self.is_slow {
            let came = tokio::time::timeout(self.timeout, self.response.chunk()).await;
            came.map_err(|_| HttpError::Lost {
                exchange: self.exchange.clone(),
                reason: format!("no piece of it came for {:?}", self.timeout),
            })?
        } else {
            self.response.chunk().await
        };
        let piece = piece.map_err(|error| transport_error(self.exchange.clone(), self.timeout, error))?;
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

    /// Refuses a body that says itself that it is too long.
    pub(crate) fn check_length(&self) -> Result<(), HttpError> {
        let is_over = self.response.content_length().is_some_and(|length| length > self.limit as u64);
        if is_over { Err(self.too_large()) } else { Ok(()) }
    }

    /// Reads the rest.
    pub(crate) async fn whole(mut self) -> Result<HttpResponse, HttpError> {
        self.check_length()?;
        let mut body = Vec::new();
        while let Some(piece) = self.next().await? {
            body.extend_from_slice(&piece);
        }
        let Self { exchange: Exchange { method, url }, redirected_to, status, headers, .. } = self;
        Ok(HttpResponse { method, url, redirected_to, status, headers, body: Body::of(body) })
    }

    fn too_large(&self) -> HttpError {
        HttpError::TooLarge { exchange: self.exchange.clone(), limit: self.limit }
    }

    pub(crate) fn invalid(&self, reason: &dyn Display) -> HttpError {
        HttpError::Invalid { exchange: self.exchange.clone(), reason: reason.to_string() }
    }
}

/// Sends `draft` over the network, whatever cassette the client has; returns when the head of the answer is there.
pub(crate) async fn open(client: &HttpClient, draft: &Draft) -> Result<Arriving, HttpError> {
    let timeout = draft.timeout.unwrap_or(client.settings.timeout);
    let (url, request) = request(client, draft)?;
    let sent = request.timeout(timeout).send().await;
    let response = sent.map_err(|error| transport_error(draft.exchange(), timeout, error))?;
    Ok(arriving(client, draft, url, response, timeout))
}

/// As [`open`], for an exchange that may take long: it ends when nothing moves for the timeout. The answer's body may have
/// `limit` bytes.
pub(crate) async fn open_slow(
    cx: &StepCx,
    client: &HttpClient,
    draft: &Draft,
    limit: usize,
) -> Result<Arriving, HttpError> {
    let timeout = draft.timeout.unwrap_or(client.settings.timeout);
    let (url, mut request) = request(client, draft)?;
    let mut moved = Moved::default();
    if let Some(upload) = &draft.upload {
        let sending = upload.open(cx).await.map_err(|reason| draft.invalid(reason))?;
        // Said here, because nobody says it of a body that is empty.
        request = request.header(CONTENT_LENGTH, sending.bytes).body(sending.body);
        moved = sending.moved;
    }
    let response = match moved.within(timeout, request.send()).await {
        Some(sent) => sent.map_err(|error| transport_error(draft.exchange(), timeout, error))?,
        None => return Err(HttpError::Timeout { exchange: draft.exchange(), timeout }),
    };
    Ok(Arriving { limit, is_slow: true, ..arriving(client, draft, url, response, timeout) })
}

/// The request that `draft` describes, with its body if that is in memory.
fn request<'d>(client: &HttpClient, draft: &'d Draft) -> Result<(&'d Url, RequestBuilder), HttpError> {
    let url = match (&draft.url, &draft.problem) {
        (Ok(url), None) => url,
        (_, problem) => return Err(draft.invalid(problem.as_deref().unwrap_or("not a URL"))),
    };
    let mut headers = draft.headers.clone();
    client.authorize(url, &mut headers);
    if let Some(trace) = draft.trace.and_then(|trace| HeaderValue::from_str(&trace.to_string()).ok()) {
        headers.entry("traceparent").or_insert(trace);
    }
    let connections =
        client.connections_for(&draft.method, &headers).map_err(|problem| draft.invalid(&problem))?;
    let mut request = connections.request(draft.method.clone(), url.clone()).headers(headers);
    if let Some(body) = &draft.body {
        request = request.body(body.clone());
    }
    Ok((url, request))
}

fn arriving(
    client: &HttpClient,
    draft: &Draft,
    url: &Url,
    response: Response,
    timeout: Duration,
) -> Arriving {
    let settings = &client.settings;
    let (status, headers) =
        (response.status().as_u16(), mask::headers(response.headers(), &settings.recorded, response.url()));
    let redirected_to = (!is_same_place(url, response.url())).then(|| mask::url(response.url()));
    let (exchange, limit) = (draft.exchange(), settings.max_body);
    let (read, is_slow) = (Arc::default(), false);
    Arriving { response, exchange, timeout, is_slow, limit, read, redirected_to, status, headers }
}

/// Whether two URLs ask the same of the same server.
fn is_same_place(asked: &Url, answered: &Url) -> bool {
    let place = |url: &Url| {
        let (scheme, host) = (url.scheme().to_owned(), url.host_str().map(str::to_owned));
        (scheme, host, url.port(), url.path().to_owned(), url.query().map(str::to_owned))
    };
    place(asked) == place(answered)
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
