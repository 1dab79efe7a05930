//! Building a request, in a workflow or in a step's body, and sending it through the door it came from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::def::{OnUnknown, Retry, StepOptions};
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::{Classify, EffectClass};
use aether_core::payload::{Payload, PayloadError};
use aether_core::step::StepCx;
use aether_core::step::{self, BodyError, BodyResult};
use aether_core::workflow::BoxEffect;
use aether_core::workflow::Cx;
use futures_util::future::{BoxFuture, Either, select};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;

use super::client::HttpClient;
use super::error::{Exchange, HttpError};
use super::exchange::send;
use super::mask;
use super::response::{Body, HttpResponse};
use crate::secret::Secret;

/// Bodies up to this size are recorded with an exchange made in a step's body, in bytes.
const NOTED_BODY: usize = 4 << 10;

/// Where requests start: `cx.http()`.
#[derive(Debug)]
pub struct Door<C>(pub(super) C);

impl<C> Door<C> {
    /// `GET url`.
    pub fn get(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::GET, url.as_ref())
    }

    /// `HEAD url`.
    pub fn head(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::HEAD, url.as_ref())
    }

    /// `OPTIONS url`.
    pub fn options(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::OPTIONS, url.as_ref())
    }

    /// `POST url`.
    pub fn post(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::POST, url.as_ref())
    }

    /// `PUT url`.
    pub fn put(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::PUT, url.as_ref())
    }

    /// `PATCH url`.
    pub fn patch(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::PATCH, url.as_ref())
    }

    /// `DELETE url`.
    pub fn delete(self, url: impl AsRef<str>) -> HttpRequest<C> {
        self.request(Method::DELETE, url.as_ref())
    }

    fn request(self, method: Method, url: &str) -> HttpRequest<C> {
        HttpRequest { door: self.0, draft: Draft::new(method, url), idempotent: false }
    }
}

/// A request as far as it is built. What is wrong with it is told when it is sent.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(super) method: Method,
    /// The parsed URL, or what can be shown of a text that is none.
    pub(super) url: Result<Url, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
    pub(super) timeout: Option<Duration>,
    pub(super) problem: Option<String>,
}

/// A request as it stands in the journal.
#[derive(Debug, Serialize)]
struct RecordedRequest {
    method: String,
    url: String,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Body>,
}

impl Draft {
    pub(crate) fn new(method: Method, url: &str) -> Self {
        let (url, problem) = match Url::parse(url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => (Ok(url), None),
            Ok(url) => (Err(mask::url(&url)), Some(format!("`{}` is not http or https", url.scheme()))),
            Err(error) => (Err(mask::unparsable(url)), Some(format!("not a URL: {error}"))),
        };
        Self { method, url, headers: HeaderMap::new(), body: None, timeout: None, problem }
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
                self.body = Some(body);
            }
            Err(error) => self.fail(format!("the body does not serialize to JSON: {error}")),
        }
    }

    pub(crate) fn timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }

    /// The first thing that is wrong counts.
    fn fail(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    pub(super) fn exchange(&self) -> Exchange {
        let url = self.url.as_ref().map_or_else(Clone::clone, mask::url);
        Exchange { method: self.method.to_string(), url }
    }

    pub(super) fn invalid(&self, reason: impl Display) -> HttpError {
        HttpError::Invalid { exchange: self.exchange(), reason: reason.to_string() }
    }

    /// Whether nothing is wrong with it.
    pub(super) fn is_whole(&self) -> bool {
        self.url.is_ok() && self.problem.is_none()
    }

    /// What a cassette knows the request by: method, URL and body, as JSON where it is JSON.
    pub(super) fn asked(&self) -> Result<Payload, PayloadError> {
        let Exchange { method, url } = self.exchange();
        let body = self.body.clone().map(|body| match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(json) => serde_json::json!({ "json": json }),
            Err(_) => serde_json::json!(Body::of(body)),
        });
        Payload::encode(&serde_json::json!({ "method": method, "url": url, "body": body }))
    }

    /// What is recorded of the request. A body over `max_body` bytes is left out.
    fn record(&self, recorded: &BTreeSet<String>, max_body: usize) -> Result<Payload, PayloadError> {
        let Exchange { method, url } = self.exchange();
        let headers = match &self.url {
            Ok(base) => mask::headers(&self.headers, recorded, base),
            Err(_) => BTreeMap::new(),
        };
        let body = self.body.clone().map(Body::of).filter(|body| body.recorded_len() <= max_body);
        Payload::encode(&RecordedRequest { method, url, headers, body })
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Draft({})", self.exchange())
    }
}

/// A request under construction. `C` is the context that will send it.
#[must_use = "a request is sent by `.send().await`"]
#[derive(Debug)]
pub struct HttpRequest<C> {
    door: C,
    draft: Draft,
    idempotent: bool,
}

impl<C> HttpRequest<C> {
    /// Adds a header. Recorded only if it is on the allow-list; `authorization`, `cookie` and the like never are.
    pub fn header(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.draft.header(name, value.as_ref(), false);
        self
    }

    /// Adds a header that is not recorded.
    pub fn secret_header(mut self, name: &str, value: &Secret<String>) -> Self {
        self.draft.header(name, value.expose(), true);
        self
    }

    /// Adds `authorization: Bearer <token>`. Not recorded.
    pub fn bearer(mut self, token: &Secret<String>) -> Self {
        self.draft.header("authorization", &format!("Bearer {}", token.expose()), true);
        self
    }

    /// Adds query parameters. The values of parameters that look like secrets (`token`, `api_key`, ..) are masked in
    /// the record.
    pub fn query<K: AsRef<str>, V: Display>(mut self, pairs: &[(K, V)]) -> Self {
        if let Ok(url) = &mut self.draft.url
            && !pairs.is_empty()
        {
            let pairs = pairs.iter().map(|(name, value)| (name.as_ref(), value.to_string()));
            url.query_pairs_mut().extend_pairs(pairs);
        }
        self
    }

    /// Sends `value` as JSON. The body is recorded: keep secrets in headers.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        self.draft.json(value);
        self
    }

    /// Sends `body` as it is. The body is recorded: keep secrets in headers.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.draft.body = Some(body.into());
        self
    }

    /// Time for the whole exchange. Default 30 s, or that of the provided [`HttpClient`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.draft.timeout(timeout);
        self
    }
}

impl<'c> HttpRequest<&'c mut Cx> {
    /// Says that the receiver spots repeats by the `Idempotency-Key` header: a request whose answer was lost is sent
    /// again under the same key, and one that definitely was not sent is tried again.
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Sends the request, recorded. Any status is a value; see [`HttpResponse::error_for_status`].
    ///
    /// The step error is `App` or `Exhausted` when nothing was sent or a safe method failed, and `InDoubt` when the
    /// answer to a request that may have changed the world was lost.
    pub fn send(self) -> BoxEffect<'c, Result<HttpResponse, StepError<Failure>>> {
        let Self { door, draft, idempotent } = self;
        let options = options(&draft.method, idempotent);
        let name = format!("http.{}", draft.method.as_str().to_ascii_lowercase());
        let args = draft.record(&BTreeSet::new(), usize::MAX);
        door.effect(name, options, args, Arc::new(Recorded(draft)))
    }
}

fn options(method: &Method, idempotent: bool) -> StepOptions {
    let class = if method.is_safe() { EffectClass::Read } else { EffectClass::Http };
    // The exchange has a timeout of its own, which can tell whether anything was sent.
    let mut options = StepOptions { timeout: None, ..StepOptions::of(class) };
    if idempotent && class.changes_world() {
        options.idempotent = true;
        options.on_unknown = OnUnknown::Retry;
        options.retry = Retry::READ;
    }
    options
}

/// The body of a request made by a workflow. It holds what is not recorded: credentials.
#[derive(Debug)]
struct Recorded(Draft);

impl step::Body for Recorded {
    fn call(&self, cx: StepCx, _args: &Payload) -> BoxFuture<'static, BodyResult> {
        let draft = self.0.clone();
        Box::pin(async move {
            match exchange(&cx, draft, true).await? {
                Ok(response) => Ok(Ok(Payload::encode(&response)?)),
                Err(error) => Ok(Err(body_error(error)?)),
            }
        })
    }
}

/// The recorded form of an error, with its class.
pub(crate) fn body_error<E>(error: E) -> Result<BodyError, PayloadError>
where
    E: std::error::Error + Classify + Send + Sync + 'static,
{
    let (message, class, retry_after) = (error.to_string(), error.class(), error.retry_after());
    let error = Payload::encode(&Failure::from(error).classified(class))?;
    Ok(BodyError { error, message, class, retry_after })
}

impl HttpRequest<StepCx> {
    /// Sends the request. The exchange is recorded with the step's outcome, bodies only up to 4 KiB.
    ///
    /// # Errors
    /// [`HttpError`], whose class tells whether anything may have been changed; `?` keeps it.
    pub async fn send(self) -> Result<HttpResponse, HttpError> {
        let invalid = self.draft.exchange();
        match exchange(&self.door, self.draft, false).await {
            Ok(answer) => answer,
            Err(error) => Err(HttpError::Invalid { exchange: invalid, reason: error.to_string() }),
        }
    }
}

/// Makes one exchange and notes it. With `whole`, the response is noted exactly as it is returned, and the request
/// without its body, which the command's arguments hold.
async fn exchange(
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
    let answer = send_unless_cancelled(cx, &client, &draft).await;
    let request = draft.record(&client.settings.recorded, if whole { 0 } else { NOTED_BODY })?;
    cx.note_http(request, noted(&answer, whole)?);
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
fn noted(answer: &Result<HttpResponse, HttpError>, whole: bool) -> Result<Payload, PayloadError> {
    match answer {
        Ok(response) if whole || response.body.recorded_len() <= NOTED_BODY => Payload::encode(response),
        Ok(HttpResponse { method, url, status, headers, body }) => Payload::encode(&serde_json::json!({
            "method": method, "url": url, "status": status, "headers": headers, "body_bytes": body.recorded_len(),
        })),
        Err(error) => Payload::encode(&serde_json::json!({ "error": error.to_string() })),
    }
}
