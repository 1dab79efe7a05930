//! The shared HTTP client: its settings, limits, and the credentials of hosts.
//!
//! Promise: a peer that hangs is cut off by a timeout, one that floods by a limit.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::host_limit::HostLimit;
use super::hosts::Hosts;
use super::mask::{self, is_recorded};
use super::pools::{self, Pools};
use crate::cassette::player::Cassette;
use crate::secret::Secret;

/// Default time for one whole exchange.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Default limit of a response's body, in bytes.
const MAX_BODY: usize = 8 << 20;
/// Default limit of a download, in bytes.
const MAX_DOWNLOAD: u64 = 1 << 30;

/// Connections and settings for `cx.http()`. Give the engine one with `.provide(..)` to change what is the default;
/// cheap to clone.
///
/// ```
/// use aether_effects::http::HttpClient;
/// let client = HttpClient::builder()
///     .timeout(std::time::Duration::from_secs(5))
///     .bearer("api.example.com", "the token")
///     .record_header("x-ratelimit-remaining")
///     .build()?;
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct HttpClient {
    pools: Arc<Pools>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) hosts: Hosts,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) max_body: usize,
    pub(crate) max_download: u64,
    pub(crate) recorded: BTreeSet<String>,
    pub(crate) cassette: Option<Cassette>,
    credentials: Vec<Credential>,
}

#[derive(Clone, Debug)]
struct Credential {
    host: String,
    name: String,
    value: Secret<String>,
}

impl HttpClient {
    /// A client with settings of your own.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().max_body(1 << 20).build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn builder() -> HttpClientBuilder {
        HttpClientBuilder {
            settings: Settings {
                timeout: TIMEOUT,
                max_body: MAX_BODY,
                max_download: MAX_DOWNLOAD,
                recorded: BTreeSet::new(),
                cassette: None,
                credentials: Vec::new(),
            },
            limits: HashMap::new(),
            each: None,
        }
    }

    /// The client that is used where the program provides none.
    ///
    /// # Errors
    /// Why TLS cannot be set up, the same text every time.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::shared()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn shared() -> Result<Self, String> {
        static SHARED: OnceLock<Result<HttpClient, String>> = OnceLock::new();
        SHARED.get_or_init(|| Self::builder().build()).clone()
    }

    /// Whether this client records a header of an answer; `name` in any case.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().record_header("x-ratelimit-remaining").build()?;
    /// assert!(client.records("ETag") && client.records("X-RateLimit-Remaining"));
    /// assert!(!client.records("server") && !client.records("set-cookie"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn records(&self, name: &str) -> bool {
        is_recorded(&name.to_ascii_lowercase(), &self.settings.recorded)
    }

    /// The client that the program provides, or else the shared one.
    pub(crate) fn of(provided: Option<&Self>) -> Result<Self, String> {
        provided.map_or_else(Self::shared, |client| Ok(client.clone()))
    }

    /// Settings of connections for other clients: TLS as here, and no redirects.
    ///
    /// # Errors
    /// Why TLS cannot be set up.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let connections = HttpClient::connections_builder()?.build();
    /// assert!(connections.is_ok());
    /// # Ok::<(), String>(())
    /// ```
    pub fn connections_builder() -> Result<reqwest::ClientBuilder, String> {
        pools::connections()
    }

    /// The connections of this runtime for a request of `method` with `headers`.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn connections_for(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<reqwest::Client, String> {
        let pools = self.pools.here()?;
        Ok(if !method.is_safe() {
            pools.changing
        } else if !mask::are_harmless(headers) {
            pools.secretive
        } else {
            pools.safe
        })
    }

    /// Adds the credentials of the URL's host that the request does not bring itself.
    pub(crate) fn authorize(&self, url: &Url, headers: &mut HeaderMap) {
        let host = url.host_str().unwrap_or_default();
        for credential in self.settings.credentials.iter().filter(|credential| credential.host == host) {
            let name = HeaderName::from_bytes(credential.name.as_bytes());
            if let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_str(credential.value.expose())) {
                value.set_sensitive(true);
                headers.entry(name).or_insert(value);
            }
        }
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Settings of an [`HttpClient`].
///
/// ```
/// # use aether_effects::http::HttpClient;
/// let client = HttpClient::builder().timeout(std::time::Duration::from_secs(5)).max_body(1 << 20).build()?;
/// # Ok::<(), String>(())
/// ```
#[must_use = "call `.build()`"]
#[derive(Clone, Debug)]
pub struct HttpClientBuilder {
    settings: Settings,
    limits: HashMap<String, HostLimit>,
    each: Option<HostLimit>,
}

impl HttpClientBuilder {
    /// Time for one whole exchange; of one that downloads or uploads, the time in which nothing moves. Default 30 s. A wait
    /// for the host does not count.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().timeout(std::time::Duration::from_secs(5)).build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Largest body of a response, in bytes. Default 8 MiB.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().max_body(1 << 20).build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.settings.max_body = bytes;
        self
    }

    /// Largest body of a download, in bytes. Default 1 GiB.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().max_download(20 << 30).build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn max_download(mut self, bytes: u64) -> Self {
        self.settings.max_download = bytes;
        self
    }

    /// Limits the requests to `host`, at all its ports, by this client and its clones: those over the limit wait, in the order
    /// in which they came. A request of a workflow waits before its intent is written, so that a crash in the wait leaves
    /// nothing unknown; one of a step's body waits in the body. Redirects are not counted.
    ///
    /// ```
    /// # use aether_effects::http::{HostLimit, HttpClient};
    /// let client = HttpClient::builder()
    ///     .host_limit("api.example.com", HostLimit::new().concurrent(4).per_second(10))
    ///     .build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn host_limit(mut self, host: &str, limit: HostLimit) -> Self {
        self.limits.insert(host.to_ascii_lowercase(), limit);
        self
    }

    /// As [`HttpClientBuilder::host_limit`], for each host that has no limit of its own.
    ///
    /// ```
    /// # use aether_effects::http::{HostLimit, HttpClient};
    /// let client = HttpClient::builder().each_host_limit(HostLimit::new().concurrent(8)).build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn each_host_limit(mut self, limit: HostLimit) -> Self {
        self.each = Some(limit);
        self
    }

    /// Records this header besides the usual ones. Credentials (`authorization`, `cookie`, ...) stay unrecorded.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().record_header("x-ratelimit-remaining").build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn record_header(mut self, name: &str) -> Self {
        self.settings.recorded.insert(name.to_ascii_lowercase());
        self
    }

    /// Whether the client will record a header of an answer, as [`HttpClient::records`] says it.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// assert!(HttpClient::builder().records("etag"));
    /// ```
    pub fn records(&self, name: &str) -> bool {
        is_recorded(&name.to_ascii_lowercase(), &self.settings.recorded)
    }

    /// Sends `value` as header `name` with every request to `host` that does not set this header itself. Not recorded.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().credential("api.example.com", "x-api-key", "the key").build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn credential(mut self, host: &str, name: &str, value: impl Into<Secret<String>>) -> Self {
        let (host, name) = (host.to_ascii_lowercase(), name.to_ascii_lowercase());
        self.settings.credentials.push(Credential { host, name, value: value.into() });
        self
    }

    /// Sends `token` as a bearer token with every request to `host`. Not recorded.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().bearer("api.example.com", "the token").build()?;
    /// # Ok::<(), String>(())
    /// ```
    pub fn bearer(self, host: &str, token: impl Into<Secret<String>>) -> Self {
        let token = format!("Bearer {}", token.into().expose());
        self.credential(host, "authorization", token)
    }

    /// Records every exchange on `cassette`, or plays it back from there; see [`Cassette`].
    ///
    /// ```
    /// # use aether_effects::{cassette::Cassette, http::HttpClient};
    /// # fn client(cassette: Cassette) -> Result<HttpClient, String> {
    /// let client = HttpClient::builder().cassette(&cassette).build()?;
    /// # Ok(client)
    /// # }
    /// ```
    pub fn cassette(mut self, cassette: &Cassette) -> Self {
        self.settings.cassette = Some(cassette.clone());
        self
    }

    /// Builds the client, its connections and its TLS.
    ///
    /// # Errors
    /// Why TLS cannot be set up, which credential cannot be a header, or which limit lets nothing through.
    ///
    /// ```
    /// # use aether_effects::http::HttpClient;
    /// let client = HttpClient::builder().build()?;
    ///
    /// let refused = HttpClient::builder().credential("api.example.com", "no header", "x").build();
    /// assert!(refused.is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn build(self) -> Result<HttpClient, String> {
        for credential in &self.settings.credentials {
            HeaderName::from_bytes(credential.name.as_bytes())
                .map_err(|_| format!("{:?} is not the name of a header", credential.name))?;
            HeaderValue::from_str(credential.value.expose()).map_err(|_| {
                format!("the credential for `{}` cannot be a header's value", credential.host)
            })?;
        }
        let each = self.each.iter().map(|limit| ("each host", limit));
        for (host, limit) in self.limits.iter().map(|(host, limit)| (&**host, limit)).chain(each) {
            limit.check(host)?;
        }
        Ok(HttpClient {
            pools: Arc::new(Pools::new()?),
            settings: Arc::new(self.settings),
            hosts: Hosts::new(self.limits, self.each),
        })
    }
}
