//! A request before it is sent: what it will carry, what a cassette knows it by, and what is recorded of it.
//!
//! Promise: credentials are in neither; the first thing that is wrong with a request is kept until it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::str;
use std::time::Duration;

use aether_core::payload::{Payload, PayloadError};
use aether_core::trace::TraceContext;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;

use super::error::{Exchange, HttpError};
use super::mask;
use super::members::in_order_of;
use super::response::Body;
use super::upload::{RecordedUpload, Upload};

/// A request as far as it is built. What is wrong with it is told when it is sent.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) method: Method,
    /// The parsed URL, or what can be shown of a text that is none.
    pub(crate) url: Result<Url, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
    /// Sent in place of a body.
    pub(crate) upload: Option<Upload>,
    /// A download may be kept by an engine that redacts.
    pub(crate) unredacted: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) problem: Option<String>,
    /// The trace context that is sent along. It is recorded nowhere: what a request is known by must not depend on whether
    /// somebody watches.
    pub(crate) trace: Option<TraceContext>,
}

/// A request as it stands in the journal.
#[derive(Debug, Serialize)]
struct RecordedRequest {
    method: String,
    url: String,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Body>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_from: Option<RecordedUpload>,
}

impl Draft {
    pub(crate) fn new(method: Method, url: &str) -> Self {
        let (url, problem) = match Url::parse(url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => (Ok(url), None),
            Ok(url) => (Err(mask::url(&url)), Some(format!("`{}` is not http or https", url.scheme()))),
            Err(error) => (Err(mask::unparsable(url)), Some(format!("not a URL: {error}"))),
        };
        let (headers, body, upload) = (HeaderMap::new(), None, None);
        Self { method, url, headers, body, upload, unredacted: false, timeout: None, problem, trace: None }
    }

    pub(crate) fn header(&mut self, name: &str, value: &str, secret: bool) {
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(secret || mask::is_forbidden(name.as_str()));
                self.headers.append(name, value);
            }
            (Err(_), _) => self.fail(format!("{name:?} is not the name of a header")),
            (_, Err(_)) => {
                self.fail(format!("the value of header `{name}` has characters a header cannot hold"))
            }
        }
    }

    pub(crate) fn json<T: Serialize + ?Sized>(&mut self, value: &T) {
        match serde_json::to_vec(value) {
            Ok(body) => {
                self.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                self.body(body);
            }
            Err(error) => self.fail(format!("the body does not serialize to JSON: {error}")),
        }
    }

    /// The newest body counts.
    pub(crate) fn body(&mut self, body: Vec<u8>) {
        (self.body, self.upload) = (Some(body), None);
    }

    pub(crate) fn body_from(&mut self, upload: Upload) {
        (self.body, self.upload) = (None, Some(upload.for_one_request()));
    }

    pub(crate) fn timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }

    /// The first thing that is wrong counts.
    fn fail(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    pub(crate) fn exchange(&self) -> Exchange {
        let url = self.url.as_ref().map_or_else(Clone::clone, mask::url);
        Exchange { method: self.method.to_string(), url }
    }

    pub(crate) fn invalid(&self, reason: impl Display) -> HttpError {
        HttpError::Invalid { exchange: self.exchange(), reason: reason.to_string() }
    }

    /// Whether nothing is wrong with it.
    pub(crate) fn is_whole(&self) -> bool {
        self.url.is_ok() && self.problem.is_none()
    }

    /// What an idempotency key of a step's request is made of: what stays the same where credentials, a query with a time in
    /// it, or the address of a server change.
    pub(crate) fn asks(&self) -> String {
        format!("{} {}", self.method, self.url.as_ref().map_or("", Url::path))
    }

    /// What a cassette knows the request by: method, URL and body, as JSON where it is JSON.
    pub(crate) fn asked(&self) -> Result<Payload, PayloadError> {
        let Exchange { method, url } = self.exchange();
        let body = self.body.clone().map(|body| match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(json) => serde_json::json!({ "json": json }),
            Err(_) => serde_json::json!(Body::of(body)),
        });
        let mut asked = serde_json::json!({ "method": method, "url": url, "body": body });
        if let Some(upload) = &self.upload {
            asked["body"] = serde_json::json!({ "from": upload.name() });
        }
        Payload::encode(&asked)
    }

    /// What the command of a workflow is known by.
    pub(crate) fn arguments(&self) -> Result<Payload, PayloadError> {
        self.recorded(&BTreeSet::new(), usize::MAX, Upload::name)
    }

    /// Recorded arguments whose body has the members of its objects in the order in which this request has them: that of a
    /// hash map is another one in each process. Says whether it changed something.
    pub(crate) fn reorder(&self, recorded: &mut serde_json::Value) -> bool {
        let (Some(own), Some(serde_json::Value::String(text))) =
            (self.text(), recorded.pointer_mut("/body/text"))
        else {
            return false;
        };
        if own == text.as_str() {
            return false;
        }
        let Some(mut ordered) = in_order_of(own, text) else { return false };
        // Spaces between them are the caller's.
        if in_order_of(own, own).as_ref() == Some(&ordered) {
            own.clone_into(&mut ordered);
        }
        let is_changed = ordered != *text;
        *text = ordered;
        is_changed
    }

    /// Puts the body in the order of members in which it was recorded: what is sent again under one idempotency key is the
    /// same, byte for byte, also where the record holds something else in the place of what is redacted.
    pub(crate) fn send_as_recorded(&mut self, args: &Payload) {
        let Ok(recorded) = args.decode::<serde_json::Value>() else { return };
        let recorded = recorded.pointer("/body/text").and_then(serde_json::Value::as_str);
        let (Some(own), Some(recorded)) = (self.text(), recorded) else { return };
        if own == recorded {
            return;
        }
        let Some(ordered) = in_order_of(recorded, own) else { return };
        let plain = |text: &str| in_order_of(text, text);
        if plain(recorded).as_ref() == Some(&ordered) {
            self.body = Some(recorded.as_bytes().to_vec());
        } else if plain(own).as_ref() != Some(&ordered) {
            self.body = Some(ordered.into_bytes());
        }
    }

    /// The body, where it is text.
    fn text(&self) -> Option<&str> {
        str::from_utf8(self.body.as_deref()?).ok()
    }

    /// What is noted of the request with its exchange. A body over `max_body` bytes is left out.
    pub(crate) fn record(
        &self,
        recorded: &BTreeSet<String>,
        max_body: usize,
    ) -> Result<Payload, PayloadError> {
        self.recorded(recorded, max_body, Upload::record)
    }

    fn recorded(
        &self,
        recorded: &BTreeSet<String>,
        max_body: usize,
        upload: fn(&Upload) -> RecordedUpload,
    ) -> Result<Payload, PayloadError> {
        let Exchange { method, url } = self.exchange();
        let headers = match &self.url {
            Ok(base) => mask::headers(&self.headers, recorded, base),
            Err(_) => BTreeMap::new(),
        };
        let body = self.body.clone().map(Body::of).filter(|body| body.recorded_len() <= max_body);
        let body_from = self.upload.as_ref().map(upload);
        Payload::encode(&RecordedRequest { method, url, headers, body, body_from })
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Draft({})", self.exchange())
    }
}
