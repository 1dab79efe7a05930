//! Scripted HTTP: answers to `cx.http()` in a workflow, by method and URL.
//!
//! Promise: no request of a workflow leaves the simulation. Requests of a step's real body do.

use std::collections::BTreeMap;
use std::sync::Arc;

use aether_core::failure::Failure;
use aether_core::host::BodyCall;
use aether_core::step::Workflow;
use aether_effects::http::{Body, HttpResponse};
use serde::Deserialize;

use super::Sim;
use super::script::{Behaviour, encode_named};

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
        Ok(HttpResponse { method, url, status, headers: BTreeMap::new(), body: Body::Text(body.into()) })
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
}

type Answer = Arc<dyn Fn(&HttpCall) -> Result<HttpResponse, Failure> + Send + Sync>;

/// What a server answers to one method and URL.
#[derive(Clone)]
pub(super) struct HttpScript {
    method: String,
    url: String,
    answer: Answer,
}

impl HttpScript {
    fn fits(&self, call: &HttpCall) -> bool {
        let url = match self.url.strip_suffix('*') {
            Some(start) => call.url.starts_with(start),
            None => call.url == self.url,
        };
        url && self.method.eq_ignore_ascii_case(&call.method)
    }

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.url)
    }
}

/// The answer to a request of a workflow, if one is scripted. The newest script that fits counts.
pub(super) fn answer(scripts: &[HttpScript], call: &BodyCall<'_>) -> Option<Behaviour> {
    call.path.strip_prefix("http.")?;
    let request: HttpCall = call.args.decode().ok()?;
    let script = scripts.iter().rev().find(|script| script.fits(&request))?;
    let answer = Arc::clone(&script.answer);
    Some(Behaviour::answer(move |_, _| encode_named(answer(&request))))
}

impl<W: Workflow> Sim<W> {
    /// Answers requests of the workflow with this method and URL; a URL that ends in `*` stands for all that begin so.
    pub fn http<A: HttpAnswer>(
        self,
        method: &str,
        url: &str,
        answer: impl Fn(&HttpCall) -> A + Send + Sync + 'static,
    ) -> Self {
        let answer: Answer = Arc::new(move |call| answer(call).into_response(call));
        let script = HttpScript { method: method.to_ascii_uppercase(), url: url.into(), answer };
        self.script(|scripts| scripts.http.push(script))
    }
}
