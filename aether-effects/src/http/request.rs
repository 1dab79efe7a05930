//! Building a request, in a workflow or in a step's body, and sending it by way of the context it came from.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use aether_core::definition::def::{Retry, StepOptions};
use aether_core::deps::Deps;
use aether_core::failure::{Failure, StepError};
use aether_core::outcome::EffectClass;
use aether_core::payload::{Digest, Payload, PayloadError};
use aether_core::step::StepCx;
use aether_core::step::{self, Admission, BodyResult};
use aether_core::workflow::BoxEffect;
use aether_core::workflow::Cx;
use futures_util::future::BoxFuture;
use reqwest::Method;
use serde::Serialize;

use super::client::HttpClient;
use super::download::Download;
use super::draft::Draft;
use super::error::HttpError;
use super::mask;
use super::members::sort_body;
use super::recorded::{Answer, exchange_and_note};
use super::response::HttpResponse;
use super::upload::Upload;
use crate::recorded_error::body_error;
use crate::secret::Secret;

/// A request under construction. `C` is the context that will send it.
///
/// ```
/// # use aether_core::failure::Result;
/// # use aether_core::workflow::Cx;
/// # use aether_effects::http::CxHttp;
/// # async fn workflow(cx: &mut Cx) -> Result<()> {
/// let answer = cx
///     .http()
///     .post("https://api.example.com/orders")
///     .header("x-request-id", "7")
///     .json(&["a book"])
///     .idempotent()
///     .send()
///     .await?
///     .error_for_status()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a request is sent by `.send().await`"]
#[derive(Debug)]
pub struct HttpRequest<C> {
    cx: C,
    draft: Draft,
    idempotent: bool,
    retry: Option<Retry>,
}

impl<C> HttpRequest<C> {
    pub(crate) fn new(cx: C, draft: Draft) -> Self {
        Self { cx, draft, idempotent: false, retry: None }
    }

    /// Adds a header. Recorded only if it is on the allow-list; `authorization`, `cookie` and the like never are.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().get("https://api.example.com/users").header("accept", "application/json").send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn header(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.draft.header(name, value.as_ref(), false);
        self
    }

    /// Adds a header that is not recorded.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # use aether_effects::secret::Secret;
    /// # async fn workflow(cx: &mut Cx, token: Secret<String>) -> Result<()> {
    /// cx.http().get("https://api.example.com/users").secret_header("x-api-key", &token).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn secret_header(mut self, name: &str, value: &Secret<String>) -> Self {
        self.draft.header(name, value.expose(), true);
        self
    }

    /// Adds `authorization: Bearer <token>`. Not recorded.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # use aether_effects::secret::Secret;
    /// # async fn workflow(cx: &mut Cx, token: Secret<String>) -> Result<()> {
    /// cx.http().get("https://api.example.com/users").bearer(&token).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bearer(mut self, token: &Secret<String>) -> Self {
        self.draft.header("authorization", &format!("Bearer {}", token.expose()), true);
        self
    }

    /// Adds query parameters. The values of parameters that look like secrets (`token`, `api_key`, ..) are masked in
    /// the record.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().get("https://api.example.com/users").query(&[("page", 2), ("size", 50)]).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn query<K: AsRef<str>, V: Display>(mut self, pairs: &[(K, V)]) -> Self {
        if let Ok(url) = &mut self.draft.url
            && !pairs.is_empty()
        {
            let pairs = pairs.iter().map(|(name, value)| (name.as_ref(), value.to_string()));
            url.query_pairs_mut().extend_pairs(pairs);
        }
        self
    }

    /// Sends `value` as JSON, as `serde_json` writes it. The body is recorded: keep secrets in headers. A replay of a workflow
    /// knows it also with the members of its objects in another order.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().post("https://api.example.com/users").json(&["Ada", "Grace"]).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        self.draft.json(value);
        self
    }

    /// Sends `body` as it is. The body is recorded: keep secrets in headers.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().post("https://api.example.com/users").header("content-type", "text/plain").body("Ada").send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.draft.body(body.into());
        self
    }

    /// Sends a download, or the file at a path, without holding it in memory. Its length and its SHA-256 are recorded in its
    /// place: in a workflow, those of a file stand beside the answer, and its path in the arguments. Of a file, what is sent
    /// is what it holds at that time, in every attempt.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let archive = cx.http().get("https://files.example.com/archive.tar").download().await?.error_for_status()?;
    /// cx.http().put("https://backup.example.com/archive.tar").body_from(&archive).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn body_from(mut self, upload: impl Into<Upload>) -> Self {
        self.draft.body_from(upload.into());
        self
    }

    /// Lets an engine that redacts keep a download as it comes: what it must not record may be in it.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().get("https://files.example.com/archive.tar").unredacted().download().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unredacted(mut self) -> Self {
        self.draft.unredacted = true;
        self
    }

    /// Time for the whole exchange; for one that downloads or uploads, time in which nothing moves. Default 30 s, or that of the provided [`HttpClient`](super::client::HttpClient).
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().get("https://api.example.com/users").timeout(std::time::Duration::from_secs(5)).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.draft.timeout(timeout);
        self
    }
}

impl<'c> HttpRequest<&'c mut Cx> {
    /// Says that the receiver spots repeats by the `Idempotency-Key` header: a request whose answer was lost is sent
    /// again under the same key, and one that definitely was not sent is tried again.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().post("https://api.example.com/users").json(&["Ada"]).idempotent().send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// When another attempt is made at a request that changes nothing, or that is `idempotent`; any other is sent once. By
    /// default the engine's policy for reads holds, which is an hour of attempts, and three retries for an `idempotent`
    /// request.
    ///
    /// ```
    /// # use aether_core::definition::def::Retry;
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// cx.http().get("https://api.example.com/users").retry(Retry::times(2)).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sends the request, recorded. Any status is a value; see [`HttpResponse::error_for_status`].
    ///
    /// The step error is `App` or `Exhausted` when nothing was sent or a safe method failed, and `InDoubt` when the
    /// answer to a request that may have changed the world was lost. Of an `idempotent` request that is sent again because its
    /// answer was lost, 408, 425, 429 and 5xx are no value: they say nothing about the sending before, so it is sent once
    /// more, and in doubt in the end.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let answer = cx.http().get("https://api.example.com/users").send().await?.error_for_status()?;
    /// let names: Vec<String> = answer.json()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn send(self) -> BoxEffect<'c, Result<HttpResponse, StepError<Failure>>> {
        self.ask()
    }

    /// As [`HttpRequest::send`], for an answer of any size: its body goes to the store piece by piece, in place of memory and
    /// journal, and steps read it from there. It may have 1 GiB, or what
    /// [`HttpClientBuilder::max_download`](super::client::HttpClientBuilder::max_download) says. A connection that breaks,
    /// or over which nothing comes for the timeout, is an error, and leaves no download.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::workflow::Cx;
    /// # use aether_effects::http::CxHttp;
    /// # async fn workflow(cx: &mut Cx) -> Result<()> {
    /// let archive = cx.http().get("https://files.example.com/archive.tar").download().await?.error_for_status()?;
    /// let digest = &archive.sha256;
    /// # Ok(())
    /// # }
    /// ```
    pub fn download(self) -> BoxEffect<'c, Result<Download, StepError<Failure>>> {
        self.ask()
    }

    fn ask<A: Answer>(self) -> BoxEffect<'c, Result<A, StepError<Failure>>> {
        let Self { cx, draft, idempotent, retry } = self;
        let options = options(&draft.method, idempotent, retry);
        let name = format!("http.{}", draft.method.as_str().to_ascii_lowercase());
        let args = draft.arguments();
        cx.effect(name, options, args, Arc::new(WorkflowRequest::<A>(draft, PhantomData)))
    }
}

/// How long a run stays in memory for a host that asked to be left alone.
const IN_MEMORY: Duration = Duration::from_secs(1);

fn options(method: &Method, idempotent: bool, retry: Option<Retry>) -> StepOptions {
    let class = if method.is_safe() { EffectClass::Read } else { EffectClass::Http };
    let idempotent = idempotent && class.changes_world();
    // The exchange has a timeout of its own, which can tell whether anything was sent.
    StepOptions { timeout: None, idempotent, ..StepOptions::of(class) }.retried(retry)
}

/// The body of a request made by a workflow. It holds what is not recorded: credentials.
#[derive(Debug)]
struct WorkflowRequest<A>(Draft, PhantomData<fn() -> A>);

impl<A: Answer> step::Body for WorkflowRequest<A> {
    fn call(&self, cx: StepCx, args: &Payload) -> BoxFuture<'static, BodyResult> {
        let mut draft = self.0.clone();
        draft.send_as_recorded(args);
        Box::pin(async move {
            match exchange_and_note::<A>(&cx, draft, true).await? {
                Ok(answer) => Ok(Ok(Payload::encode(&answer)?)),
                Err(error) => Ok(Err(body_error(error)?)),
            }
        })
    }

    /// The digest of the arguments with the members of a JSON body in one order: that of a hash map is another one in each map,
    /// and an equal request must not get another key by it.
    fn business_key(&self, args: &Payload) -> Result<Option<String>, PayloadError> {
        let mut request: serde_json::Value = self.canonical_args(args)?.decode()?;
        if !sort_body(&mut request) {
            return Ok(None);
        }
        Ok(Some(Digest::of(&Payload::encode(&request)?)?.as_str().to_owned()))
    }

    /// A former build recorded headers and parameters that are known to hold credentials by now, and what it had sent of a
    /// file. Another process had the members of a hash map in another order.
    fn canonical_args(&self, args: &Payload) -> Result<Payload, PayloadError> {
        let mut recorded: serde_json::Value = args.decode()?;
        let mut is_changed = Upload::forget_sent(&mut recorded);
        if let Some(headers) = recorded.get_mut("headers").and_then(serde_json::Value::as_object_mut) {
            let all = headers.len();
            headers.retain(|name, _| !mask::is_forbidden(name));
            is_changed |= headers.len() < all;
        }
        if let Some(serde_json::Value::String(url)) = recorded.get_mut("url") {
            let masked = mask::again(url);
            is_changed |= masked != *url;
            *url = masked;
        }
        is_changed |= self.0.reorder(&mut recorded);
        if is_changed { Payload::encode(&recorded) } else { Ok(args.clone()) }
    }

    fn refuses(&self, cx: &StepCx) -> Option<BodyResult> {
        let client = HttpClient::of(cx.provided::<HttpClient>().as_deref()).ok()?;
        Some(body_error(A::refused(cx, &client, &self.0)?).map(Err))
    }

    /// The wait for the host, unless nothing keeps the request back.
    fn admit(&self, deps: &Deps) -> Option<BoxFuture<'static, Admission>> {
        let url = self.0.url.as_ref().ok()?.clone();
        let hosts = HttpClient::of(deps.get::<HttpClient>().ok().as_deref()).ok()?.hosts;
        hosts.keeps_back(&url).then(|| -> BoxFuture<'static, Admission> {
            Box::pin(async move {
                match hosts.enter(&url, IN_MEMORY).await {
                    Ok(place) => Admission::Now(Box::new(place)),
                    Err(left) => Admission::Later(left),
                }
            })
        })
    }
}

impl HttpRequest<StepCx> {
    /// Sends the request. The exchange is recorded with the step's outcome, bodies only up to 4 KiB.
    ///
    /// # Errors
    /// [`HttpError`], whose class tells whether anything may have been changed; `?` keeps it.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # use aether_effects::http::StepHttp;
    /// # async fn workflow(cx: &mut StepCx) -> Result<()> {
    /// let answer = cx.http().get("https://api.example.com/users").send().await?.error_for_status()?;
    /// let names: Vec<String> = answer.json()?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(self) -> Result<HttpResponse, HttpError> {
        self.ask().await
    }

    /// As [`HttpRequest::send`], for an answer of any size: its body goes to the store piece by piece. What it comes to is
    /// recorded with the step's outcome, and may be the step's result.
    ///
    /// # Errors
    /// As of [`HttpRequest::send`]; [`HttpError::Unredacted`] where the engine redacts.
    ///
    /// ```
    /// # use aether_core::failure::Result;
    /// # use aether_core::step::StepCx;
    /// # use aether_effects::http::{Download, StepHttp};
    /// # async fn workflow(cx: &mut StepCx) -> Result<Download> {
    /// let archive = cx.http().get("https://files.example.com/archive.tar").download().await?;
    /// Ok(archive.error_for_status()?)
    /// # }
    /// ```
    pub async fn download(self) -> Result<Download, HttpError> {
        self.ask().await
    }

    async fn ask<A: Answer>(self) -> Result<A, HttpError> {
        let invalid = self.draft.exchange();
        match exchange_and_note(&self.cx, self.draft, false).await {
            Ok(answer) => answer,
            Err(error) => Err(HttpError::Invalid { exchange: invalid, reason: error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_that_a_former_build_recorded_with_a_secret_in_its_query_is_the_same_one() {
        let draft = Draft::new(Method::GET, "https://h/list?access_key=s3cret&q=a%20b");
        let arguments = draft.arguments().unwrap();
        assert!(!arguments.as_str().contains("s3cret"), "{arguments:?}");
        let mut former: serde_json::Value = arguments.decode().unwrap();
        former["url"] = json!("https://h/list?access_key=s3cret&q=a%20b");
        let body = WorkflowRequest::<HttpResponse>(draft, PhantomData);
        for recorded in [&arguments, &Payload::encode(&former).unwrap()] {
            assert_eq!(step::Body::canonical_args(&body, recorded).unwrap(), arguments);
        }
        former["url"] = json!("https://h/other?access_key=s3cret&q=a%20b");
        let other = step::Body::canonical_args(&body, &Payload::encode(&former).unwrap()).unwrap();
        assert_ne!(other, arguments);
    }

    #[test]
    fn a_body_with_its_members_in_another_order_is_the_same_one_and_is_sent_as_it_was_recorded() {
        let with = |body: &str| {
            let mut draft = Draft::new(Method::POST, "https://crm.example.com/contacts");
            draft.body(body.into());
            draft
        };
        let recorded = with(r#"{"n":1.0,"a":{"y":[1],"x":"\u00e9"}}"#).arguments().unwrap();
        for (asked, is_same) in [
            (r#"{"n":1.0,"a":{"y":[1],"x":"\u00e9"}}"#, true),
            (r#"{"a":{"x":"\u00e9","y":[1]},"n":1.0}"#, true),
            (r#"{ "a": {"x": "\u00e9", "y": [1]}, "n": 1.0 }"#, true),
            (r#"{"a":{"x":"e","y":[1]},"n":1.0}"#, false),
            (r#"{"a":{"x":"\u00e9","y":[2]},"n":1.0}"#, false),
            (r#"{"n":1.0,"a":{"y":[1],"x":"\u00e9"},"more":0}"#, false),
            ("n=1", false),
        ] {
            let draft = with(asked);
            let body = WorkflowRequest::<HttpResponse>(draft.clone(), PhantomData);
            let normal = step::Body::canonical_args(&body, &recorded).unwrap();
            assert_eq!(normal == draft.arguments().unwrap(), is_same, "{asked}");
            let mut sent = draft;
            sent.send_as_recorded(&recorded);
            assert_eq!(sent.arguments().unwrap() == recorded, is_same, "{asked}");
        }
    }

    #[test]
    fn what_is_redacted_in_the_record_is_sent_as_it_is_and_in_the_recorded_order() {
        let sent = |own: &str, recorded: &str| {
            let mut draft = Draft::new(Method::POST, "https://crm.example.com/contacts");
            draft.body(recorded.into());
            let recorded = draft.arguments().unwrap();
            draft.body(own.into());
            draft.send_as_recorded(&recorded);
            String::from_utf8(draft.body.unwrap()).unwrap()
        };
        let recorded = r#"{"n":1.0,"pin":"***","a":{"y":[1],"token":"***"}}"#;
        let first = r#"{"n":1.0,"pin":1234,"a":{"y":[1],"token":"t"}}"#;
        let spaced = r#"{ "n": 1.0, "pin": 1234, "a": {"y": [1], "token": "t"} }"#;
        for own in [first, spaced] {
            assert_eq!(sent(own, recorded), own, "the first time it is sent as it was built");
        }
        for own in [
            r#"{"a":{"token":"t","y":[1]},"pin":1234,"n":1.0}"#,
            r#"{"pin":1234,"a":{"y":[1],"token":"t"},"n":1.0}"#,
        ] {
            assert_eq!(sent(own, recorded), first, "{own}");
        }
        // The name of a member may be redacted, too.
        let (first, recorded) = (r#"{"ann":1,"b":"t","c":2}"#, r#"{"***":1,"b":"***","c":2}"#);
        for own in [first, r#"{"c":2,"b":"t","ann":1}"#] {
            assert_eq!(sent(own, recorded), first, "{own}");
        }
        for (own, recorded) in [("n=t", "n=***"), (r#"{"a":1}"#, "***"), ("t", r#"{"a":1}"#)] {
            assert_eq!(sent(own, recorded), own);
        }
    }

    #[test]
    fn the_business_key_is_the_digest_of_a_request_whose_members_are_in_order() {
        let key = |text: &str| {
            let mut draft = Draft::new(Method::POST, "https://crm.example.com/contacts");
            draft.body(text.into());
            let arguments = draft.arguments().unwrap();
            let body = WorkflowRequest::<HttpResponse>(draft, PhantomData);
            let own = step::Body::business_key(&body, &arguments).unwrap();
            (own.clone(), own.unwrap_or_else(|| Digest::of(&arguments).unwrap().as_str().to_owned()))
        };
        let (own, digest) = key(r#"{"a":{"x":1,"y":[2]},"n":1.0}"#);
        assert_eq!(own, None, "it has the key that it always had");
        for same in [r#"{"n":1.0,"a":{"y":[2],"x":1}}"#, r#"{ "n": 1.0, "a": {"x": 1, "y": [2]} }"#] {
            assert_eq!(key(same).1, digest, "{same}");
        }
        for other in [
            r#"{"n":1,"a":{"y":[2],"x":1}}"#,
            r#"{"n":1.0,"a":{"y":[3],"x":1}}"#,
            r#"{"n":1.0,"a":{"y":[2]}}"#,
            "n=1&a=2",
        ] {
            assert_ne!(key(other).1, digest, "{other}");
        }
    }

    #[test]
    fn the_arguments_of_an_upload_are_its_source_also_where_a_former_build_recorded_what_it_had_sent() {
        let mut draft = Draft::new(Method::PUT, "https://backup.example.com/a");
        draft.body_from(Path::new("/srv/a").into());
        let arguments = draft.arguments().unwrap();
        assert!(arguments.as_str().contains(r#""body_from":{"file":"/srv/a"}"#), "{arguments:?}");
        let mut former: serde_json::Value = arguments.decode().unwrap();
        former["body_from"] = json!({ "file": "/srv/a", "bytes": 7, "sha256": "ab" });
        let body = WorkflowRequest::<HttpResponse>(draft, PhantomData);
        for recorded in [&arguments, &Payload::encode(&former).unwrap()] {
            assert_eq!(step::Body::canonical_args(&body, recorded).unwrap(), arguments);
        }
        former["body_from"] = json!({ "bytes": 7, "sha256": "ab" });
        let download = Payload::encode(&former).unwrap();
        assert_eq!(step::Body::canonical_args(&body, &download).unwrap(), download);
    }
}
