//! The answer of an HTTP exchange, as it stands in the journal.

use std::collections::BTreeMap;
use std::time::Duration;

use aether_core::payload::{outline, without_values};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{Exchange, HttpError};
use super::mask;
use crate::recorded_error::start_of;
use crate::retry_after;

/// A body: text where it is UTF-8, else base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// The body as it is, where it is UTF-8.
    Text(String),
    /// Anything else, in standard base64 with padding.
    Base64(String),
}

impl Body {
    /// The body of `bytes`.
    pub fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(STANDARD.encode(error.as_bytes())),
        }
    }

    /// The bytes as they were sent.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Base64(text) => STANDARD.decode(text).unwrap_or_default(),
        }
    }

    /// The size in the record, in bytes.
    pub(crate) fn recorded_len(&self) -> usize {
        let (Self::Text(text) | Self::Base64(text)) = self;
        text.len()
    }
}

/// A recorded HTTP response.
///
/// ```
/// # use aether_effects::http::{Body, HttpError, HttpResponse};
/// let response = HttpResponse {
///     method: "GET".into(),
///     url: "https://api.example.com/users".into(),
///     redirected_to: None,
///     status: 200,
///     headers: [("etag".to_owned(), "\"7\"".to_owned())].into(),
///     body: Body::Text("[\"Ada\"]".into()),
/// };
/// assert_eq!(response.header("ETag"), Some("\"7\""));
/// assert_eq!(response.error_for_status()?.json::<Vec<String>>()?, ["Ada"]);
/// # Ok::<(), HttpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpResponse {
    /// Method of the request.
    pub method: String,
    /// URL of the request, with its secrets masked.
    pub url: String,
    /// The URL that answered, where redirects led to another one; with its secrets masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirected_to: Option<String>,
    /// Status code of the answer.
    pub status: u16,
    /// Allow-listed headers, names in lower case; `location` with its secrets masked.
    pub headers: BTreeMap<String, String>,
    /// Body of the answer.
    pub body: Body,
}

impl HttpResponse {
    /// Whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// A recorded header; `name` in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// How long the server asks to wait, if it said so: in seconds, or as a date, which is measured from the answer's own
    /// `Date`.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after::wait(self.header("retry-after")?, self.header("date"))
    }

    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        match &self.body {
            Body::Text(text) => text.clone(),
            binary @ Body::Base64(_) => String::from_utf8_lossy(&binary.bytes()).into_owned(),
        }
    }

    /// The body as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.body.bytes()
    }

    /// The body, decoded from JSON.
    ///
    /// # Errors
    /// [`HttpError::Shape`] when it is not the JSON of a `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HttpError> {
        let text = self.text();
        serde_json::from_str(&text).map_err(|error| HttpError::Shape {
            exchange: self.exchange(),
            wanted: std::any::type_name::<T>(),
            // An answer may hold what nobody is to read in a log.
            reason: without_values(&error.to_string()),
            start: outline(&start_of(&text)),
        })
    }

    /// The response itself, if its status is below 400.
    ///
    /// # Errors
    /// [`HttpError::Status`] otherwise. 425 and 429 are retryable. 408 and every 5xx are retryable for a safe method, and
    /// leave the outcome unknown for one that may have changed the world. Any other 4xx is permanent.
    pub fn error_for_status(self) -> Result<Self, HttpError> {
        match status_error(self.exchange(), self.status, self.retry_after(), &self.text()) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The response, unless it is about the idempotency key of the request that it answers: statuses 409 and 422 say many
    /// things, and are about the key where the body speaks of it.
    #[doc(hidden)]
    pub fn unless_about_key(self) -> Result<Self, HttpError> {
        match about_key(self.exchange(), self.status, self.retry_after(), &self.text()) {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The response to a request that is sent again, unless the server cannot serve it now: that says nothing about the
    /// sending before, and must not be the outcome.
    #[doc(hidden)]
    pub fn unless_turned_away(self) -> Result<Self, HttpError> {
        if is_turned_away(self.status) { self.error_for_status() } else { Ok(self) }
    }

    /// The response with its URLs as an exchange records them: `location` absolute, and the secrets masked in it and in
    /// `redirected_to`.
    #[doc(hidden)]
    pub fn masked(mut self) -> Self {
        let answered = Url::parse(self.redirected_to.as_ref().unwrap_or(&self.url));
        if let (Ok(base), Some(location)) = (answered, self.headers.get_mut("location")) {
            *location = mask::location(location, &base);
        }
        self.redirected_to = self.redirected_to.as_deref().map(mask::again);
        self
    }

    fn exchange(&self) -> Exchange {
        Exchange { method: self.method.clone(), url: self.url.clone() }
    }
}

/// Whether a server with this status did not take the request up, and may do so later.
pub(crate) fn is_turned_away(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..)
}

/// The error of a status from 400 on; see [`HttpResponse::error_for_status`].
pub(crate) fn status_error(
    exchange: Exchange,
    status: u16,
    retry_after: Option<Duration>,
    body: &str,
) -> Option<HttpError> {
    (status >= 400).then(|| HttpError::Status { exchange, status, retry_after, start: start_of(body) })
}

/// What a server says about the idempotency key; see [`HttpResponse::unless_about_key`].
pub(crate) fn about_key(
    exchange: Exchange,
    status: u16,
    retry_after: Option<Duration>,
    body: &str,
) -> Option<HttpError> {
    if !matches!(status, 409 | 422) || !body.to_ascii_lowercase().contains("idempoten") {
        return None;
    }
    let start = start_of(body);
    Some(match status {
        409 => HttpError::InProgress { exchange, retry_after, start },
        _ => HttpError::KeyMismatch { exchange, start },
    })
}
