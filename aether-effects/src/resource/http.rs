//! What an HTTP server keeps: its entity tag, or the SHA-256 of its body, or only whether it is there.

use std::future::ready;

use aether_core::failure::{Failure, Result};
use aether_core::id::RunId;
use aether_core::journal::event::StateChanged;
use aether_core::payload::hex;
use aether_core::policy::Inspection;
use aether_core::policy::Verifier;
use aether_core::step::StepCx;
use futures_util::future::BoxFuture;
use reqwest::{Method, Url};
use sha2::{Digest as _, Sha256};

use super::kind::{ABSENT, HTTP, HTTP_MASKED};
use crate::http::client::HttpClient;
use crate::http::draft::Draft;
use crate::http::exchange::send;
use crate::http::mask;
use crate::http::response::HttpResponse;

/// Looks at URLs with `HEAD`, or with `GET` where a body must be compared or the server knows no `HEAD`.
///
/// A recorded entity tag must be the same (whether it is weak does not count), else a recorded SHA-256 of the body;
/// with neither recorded, the status must be 200 to 299; after a deletion it must be 404 or 410. A server that cannot
/// answer now (408, 425, 429, 5xx, no connection) is asked again; one that refuses (401, 403) is not.
///
/// It asks for the URL that is recorded. What is found at a URL whose secrets are masked is not reported as `http`, so that
/// nobody looks at it; where a former build did so, it is taken as it was left, with a warning in the log.
///
/// ```
/// use aether_effects::http::HttpClient;
/// use aether_effects::resource::HttpVerifier;
/// let client = HttpClient::builder().bearer("api.example.com", "the token").build()?;
/// let verifier = HttpVerifier::new(client).once();
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct HttpVerifier {
    /// Where there is none: the one that is used where a program provides none.
    client: Option<HttpClient>,
    once: bool,
}

impl HttpVerifier {
    /// Looks at every recovery, with the connections and credentials of `client`.
    pub const fn new(client: HttpClient) -> Self {
        Self { client: Some(client), once: false }
    }

    /// Does not look again at a resource that was once found as it was left.
    #[must_use]
    pub fn once(self) -> Self {
        Self { once: true, ..self }
    }

    async fn ask(&self, method: Method, url: &str) -> Result<HttpResponse> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => HttpClient::shared().map_err(Failure::permanent)?,
        };
        let response = send(&client, &Draft::new(method, url)).await?;
        match response.status {
            408 | 425 | 429 | 500..=599 if response.status != 501 => {
                Err(Failure::retryable(format_args!("{} answers {}", response.url, response.status)))
            }
            401 | 403 => {
                Err(Failure::permanent(format_args!("{} answers {}", response.url, response.status)))
            }
            _ => Ok(response),
        }
    }

    async fn head(&self, url: &str) -> Result<HttpResponse> {
        let response = self.ask(Method::HEAD, url).await?;
        if matches!(response.status, 405 | 501) { self.ask(Method::GET, url).await } else { Ok(response) }
    }

    async fn see(&self, change: &StateChanged) -> Result<Inspection> {
        let digest = change.version.as_deref().filter(|version| *version != ABSENT);
        let (expected, found) = match (&change.etag, digest) {
            _ if change.version.as_deref() == Some(ABSENT) => {
                let status = self.head(&change.id).await?.status;
                let found =
                    if matches!(status, 404 | 410) { ABSENT.into() } else { format!("status {status}") };
                (ABSENT.into(), found)
            }
            (Some(etag), _) => {
                let response = self.head(&change.id).await?;
                (strong(etag).to_owned(), state(&response, response.header("etag").map(strong)))
            }
            (None, Some(digest)) => {
                let response = self.ask(Method::GET, &change.id).await?;
                (digest.to_owned(), state(&response, Some(&body_digest(&response))))
            }
            (None, None) => {
                let response = self.head(&change.id).await?;
                ("a successful status".into(), state(&response, Some("a successful status")))
            }
        };
        Ok(if expected == found { Inspection::Unchanged } else { Inspection::Differs { expected, found } })
    }
}

impl Verifier for HttpVerifier {
    fn name(&self) -> &str {
        "http"
    }

    fn look<'a>(&'a self, run: &'a RunId, change: &'a StateChanged) -> BoxFuture<'a, Result<Inspection>> {
        if mask::is_masked(&change.id) {
            tracing::warn!(target: "aether::step", %run, command = %change.command, id = change.id,
                "a resource is not looked at: its URL is recorded with its secrets masked");
            return Box::pin(ready(Ok(Inspection::Unchanged)));
        }
        Box::pin(self.see(change))
    }

    fn skips_confirmed(&self) -> bool {
        self.once
    }
}

/// What a successful answer shows, else its status.
fn state(response: &HttpResponse, shown: Option<&str>) -> String {
    match shown {
        Some(shown) if response.is_success() => shown.to_owned(),
        Some(_) => format!("status {}", response.status),
        None if response.is_success() => "no entity tag".into(),
        None => format!("status {}", response.status),
    }
}

/// An entity tag without its mark of weakness.
fn strong(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

fn body_digest(response: &HttpResponse) -> String {
    format!("sha256:{}", hex(&Sha256::digest(response.bytes())))
}

/// Kind and name of what is found at `url`. A masked URL finds nothing, or something else: a digest tells two of them apart,
/// and by its kind nobody looks at it.
fn identity(run: &RunId, url: &str) -> (&'static str, String) {
    match Url::parse(url) {
        Ok(parsed) if mask::hides(&parsed) => {
            let digest = hex(&Sha256::digest(format!("{run} {parsed}")));
            (HTTP_MASKED, format!("{} {}", mask::url(&parsed), &digest[..16]))
        }
        Ok(parsed) => (HTTP, mask::url(&parsed)),
        Err(_) => (HTTP, url.to_owned()),
    }
}

/// Reports a resource as `response` shows it.
pub(crate) fn report(cx: &StepCx, url: &str, response: &HttpResponse) {
    let (kind, id) = identity(cx.run_id(), url);
    let gone = matches!(response.status, 404 | 410) || (response.method == "DELETE" && response.is_success());
    let mut changed = cx.changed(kind, &id, &response.method.to_ascii_lowercase());
    if gone {
        changed = changed.version(ABSENT);
    } else if response.method == "GET" && response.is_success() {
        changed = changed.version(body_digest(response));
    }
    if let Some(etag) = response.header("etag").filter(|_| !gone) {
        changed = changed.etag(etag);
    }
    if let Some(location) = response.header("location") {
        changed = changed.external_ref(location);
    }
    drop(changed);
}

#[cfg(test)]
mod tests {
    use aether_core::id::CommandId;

    use super::*;

    fn run() -> RunId {
        "r".parse().unwrap()
    }

    #[test]
    fn what_is_found_at_a_masked_url_has_a_kind_and_a_name_of_its_own() {
        assert_eq!(identity(&run(), "https://h/item?id=7#top"), (HTTP, "https://h/item?id=7".into()));
        let names = ["users/7", "users/8"].map(|key| {
            let (kind, name) = identity(&run(), &format!("https://h/item?key={key}"));
            assert_eq!(kind, HTTP_MASKED);
            assert!(name.starts_with("https://h/item?key=*** ") && !name.contains("users"), "{name}");
            name
        });
        assert_ne!(names[0], names[1]);
        assert_eq!(identity(&run(), "https://h/item?key=users/7").1, names[0]);
    }

    #[tokio::test]
    async fn a_masked_url_that_a_former_build_recorded_is_not_asked_for() {
        let change = StateChanged {
            command: "0:put".parse::<CommandId>().unwrap(),
            resource: HTTP.into(),
            // Nobody listens there.
            id: "http://127.0.0.1:9/item?key=***".into(),
            operation: "put".into(),
            version: None,
            etag: Some("1".into()),
            external_ref: None,
        };
        let looked = HttpVerifier::default().look(&run(), &change).await;
        assert_eq!(looked.unwrap(), Inspection::Unchanged);
    }
}
