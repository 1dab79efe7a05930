//! One exchange on the wire, bounded in time and size, with errors that tell whether anything was sent.

use std::time::Duration;

use aether_core::payload::Payload;
use reqwest::Response;

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

/// Sends `draft` over the network.
async fn transmit(client: &HttpClient, draft: &Draft) -> Result<HttpResponse, HttpError> {
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
    let body = read(response, settings.max_body).await.map_err(|error| match error {
        Some(error) => failed(error),
        None => HttpError::TooLarge { exchange: draft.exchange(), limit: settings.max_body },
    })?;
    let Exchange { method, url } = draft.exchange();
    Ok(HttpResponse { method, url, status, headers, body: Body::of(body) })
}

/// Reads a body; `None` as the error says that it is over the limit.
async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, Option<reqwest::Error>> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(None);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Some)? {
        if body.len() + chunk.len() > limit {
            return Err(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
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
