//! Scripted HTTP: answers to `cx.http()` in a workflow, by method and URL, in order or from a closure.
//!
//! Promise: no request of a workflow leaves the simulation. Requests of a step's real body do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aether_core::failure::Failure;
use aether_core::step::BodyCall;
use aether_effects::http::{Body, Exchange, HttpClient, HttpResponse};
use serde::Deserialize;

use super::answers::Answers;
use super::behaviour::Behaviour;
use super::encode::effect_result;

/// A request as it stands in the journal: without credentials.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HttpCall {
    /// The method, in capitals.
    pub method: String,
    /// The URL, with its secrets masked.
    pub url: String,
    /// Allow-listed headers, names in lower case.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default)]
    pub body: Option<Body>,
}

/// What a scripted server may answer: a status, a status and a body (text or JSON), a whole response, or a failure.
///
/// The workflow gets it as it would be recorded: a whole response has the method and URL of the request that was made,
/// whatever it says itself, and only headers that the client records which the test provides, or else the standard one
/// ([`HttpClient::records`]); its `location` is absolute, and has its secrets masked. The limit of an answer
/// ([`max_body`](aether_effects::http::HttpClientBuilder::max_body)) is not simulated: say what it leads to,
/// `Err::<u16, _>(Failure::unknown("over 8 MiB"))`, and of a request that changes nothing `Failure::permanent(..)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an answer to an HTTP request",
    label = "return `404`, `(200, \"text\")`, `(200, json!({{..}}))`, an `HttpResponse`, or a `Result` of one and a `Failure`"
)]
pub trait HttpAnswer {
    /// The response to `call`.
    ///
    /// # Errors
    /// The failure that the workflow is to see. One of class `Unknown` leaves a world-changing request in doubt.
    fn into_response(self, call: &HttpCall) -> Result<HttpResponse, Failure>;

    /// How long the answer takes, in virtual time.
    fn takes(&self) -> Duration {
        Duration::ZERO
    }
}

impl HttpAnswer for HttpResponse {
    fn into_response(self, _call: &HttpCall) -> Result<HttpResponse, Failure> {
        Ok(self)
    }
}

impl HttpAnswer for u16 {
    fn into_response(self, call: &HttpCall) -> Result<HttpResponse, Failure> {
        (self, "").into_response(call)
    }
}

impl HttpAnswer for (u16, &str) {
    fn into_response(self, call: &HttpCall) -> Result<HttpResponse, Failure> {
        let (status, body) = self;
        let HttpCall { method, url, .. } = call.clone();
        let (headers, body) = (BTreeMap::new(), Body::Text(body.into()));
        Ok(HttpResponse { method, url, redirected_to: None, status, headers, body })
    }
}

impl HttpAnswer for (u16, serde_json::Value) {
    fn into_response(self, call: &HttpCall) -> Result<HttpResponse, Failure> {
        let mut response = (self.0, self.1.to_string().as_str()).into_response(call)?;
        response.headers.insert("content-type".into(), "application/json".into());
        Ok(response)
    }
}

impl<A: HttpAnswer> HttpAnswer for Result<A, Failure> {
    fn into_response(self, call: &HttpCall) -> Result<HttpResponse, Failure> {
        self?.into_response(call)
    }

    fn takes(&self) -> Duration {
        self.as_ref().map_or(Duration::ZERO, HttpAnswer::takes)
    }
}

/// An answer that takes its time; see [`delayed`].
#[derive(Clone, Debug)]
pub struct Delayed<A> {
    takes: Duration,
    answer: A,
}

/// An answer that comes after this much virtual time. A request's own timeout is not simulated: say what it leads to,
/// `delayed(wait, Err::<u16, _>(Failure::unknown("no answer in time")))`. There is an example at
/// [`Sim::http`](crate::Sim::http).
pub fn delayed<A>(takes: Duration, answer: A) -> Delayed<A> {
    Delayed { takes, answer }
}

impl<A: HttpAnswer> HttpAnswer for Delayed<A> {
    fn into_response(self, call: &HttpCall) -> Result<HttpResponse, Failure> {
        self.answer.into_response(call)
    }

    fn takes(&self) -> Duration {
        self.takes
    }
}

/// What a server answers to one method and URL.
#[derive(Clone)]
pub(crate) struct HttpScript {
    method: String,
    url: String,
    answers: Answers,
}

impl HttpScript {
    /// Answers to requests with this method and URL.
    pub(crate) fn new(method: &str, url: &str, answers: Answers) -> Self {
        Self { method: method.to_ascii_uppercase(), url: url.into(), answers }
    }

    fn fits(&self, call: &HttpCall) -> bool {
        (self.method == "*" || self.method.eq_ignore_ascii_case(&call.method))
            && matches(&self.url, &call.url)
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.url)
    }
}

/// Whether `text` is what `pattern` describes, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    let mut tails = (0..=text.len()).filter_map(|at| text.get(at..));
    tails.any(|tail| matches(rest, tail))
}

/// The answers to a request of a workflow, with their numbers: those in order first, then the others, the newest first.
pub(crate) fn answers<'a>(scripts: &'a [HttpScript], call: &BodyCall<'_>) -> Vec<(usize, &'a Answers)> {
    let is_request = call.path.starts_with("http.");
    let request = is_request.then(|| call.args.decode::<HttpCall>().ok()).flatten();
    let Some(request) = request else { return Vec::new() };
    let fitting = scripts.iter().enumerate().filter(|(_, script)| script.fits(&request));
    let (others, mut answers): (Vec<_>, Vec<_>) = fitting
        .map(|(number, script)| (number, &script.answers))
        .partition(|(_, answers)| answers.then.is_some());
    answers.extend(others.into_iter().rev());
    answers
}

/// Answers every request with what the closure returns.
pub(crate) fn answering<A: HttpAnswer>(answer: impl Fn(&HttpCall) -> A + Send + Sync + 'static) -> Behaviour {
    behaviour(move |call| {
        let answer = answer(call);
        (answer.takes(), answer.into_response(call))
    })
}

/// Answers a request, in virtual time.
fn behaviour(
    answer: impl Fn(&HttpCall) -> (Duration, Result<HttpResponse, Failure>) + Send + Sync + 'static,
) -> Behaviour {
    let answer = Arc::new(answer);
    Behaviour::Stub(Arc::new(move |cx, args| {
        let answer = Arc::clone(&answer);
        Box::pin(async move {
            let call: HttpCall = args.decode()?;
            let (takes, response) = answer(&call);
            tokio::time::sleep(takes).await;
            let client = cx.provided::<HttpClient>();
            let response = response.map(|response| as_recorded(&call, response, client.as_deref()));
            let response = response.and_then(|response| unless_about_key(&call, response));
            effect_result(response.and_then(|response| unless_turned_away(cx.is_sent_again(), response)))
        })
    }))
}

/// An answer as the effect records it: to the request that was made, with its URLs masked, and with the headers that `client`
/// records, or the one that is used where the test provides none.
fn as_recorded(call: &HttpCall, response: HttpResponse, client: Option<&HttpClient>) -> HttpResponse {
    let standard = HttpClient::builder();
    let records = |name: &str| client.map_or_else(|| standard.records(name), |client| client.records(name));
    let HttpCall { method, url, .. } = call.clone();
    let headers = response.headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
    let headers = headers.filter(|(name, _)| records(name)).collect();
    HttpResponse { method, url, headers, ..response }.masked()
}

/// What the effect makes of an answer: one that speaks of the key of a request which may change the world does not say
/// what came of it.
fn unless_about_key(call: &HttpCall, response: HttpResponse) -> Result<HttpResponse, Failure> {
    let HttpCall { method, url, .. } = call.clone();
    match (Exchange { method, url }).changes_world() {
        true => Ok(response.unless_about_key()?),
        false => Ok(response),
    }
}

/// What the effect makes of an answer to a request that is sent again: one that the server cannot serve now says nothing
/// about the sending before.
fn unless_turned_away(is_sent_again: bool, response: HttpResponse) -> Result<HttpResponse, Failure> {
    if is_sent_again { Ok(response.unless_turned_away()?) } else { Ok(response) }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in
            [("a*", "a"), ("a*", "abc"), ("*", ""), ("a/*/c", "a/b/c"), ("*.de/*", "x.de/y")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a/*/c", "a/b/d"), ("a*b", "ac")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
