//! How many requests a host gets at once, and in a span of time.

use std::time::Duration;

/// A limit on the requests of this process to a host; see
/// [`HttpClientBuilder::host_limit`](super::client::HttpClientBuilder::host_limit).
///
/// ```
/// use aether_effects::http::{HostLimit, HttpClient};
/// let client = HttpClient::builder()
///     .host_limit("api.example.com", HostLimit::new().concurrent(4).per_second(10))
///     .build()?;
/// # Ok::<(), String>(())
/// ```
#[must_use = "give it to `HttpClientBuilder::host_limit`"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLimit {
    pub(crate) concurrent: Option<usize>,
    pub(crate) rate: Option<(u32, Duration)>,
}

impl HostLimit {
    /// No limit yet.
    pub const fn new() -> Self {
        Self { concurrent: None, rate: None }
    }

    /// At most so many requests at the same time, each until its whole answer was read.
    ///
    /// ```
    /// # use aether_effects::http::HostLimit;
    /// let limit = HostLimit::new().concurrent(4);
    /// ```
    pub const fn concurrent(mut self, requests: usize) -> Self {
        self.concurrent = Some(requests);
        self
    }

    /// At most so many requests begin in a second, at an even pace.
    ///
    /// ```
    /// # use aether_effects::http::HostLimit;
    /// let limit = HostLimit::new().per_second(10); // one every 100 ms
    /// ```
    pub const fn per_second(self, requests: u32) -> Self {
        self.rate(requests, Duration::from_secs(1))
    }

    /// At most so many requests begin in a `span`, at an even pace.
    ///
    /// ```
    /// # use aether_effects::http::HostLimit;
    /// let limit = HostLimit::new().rate(100, std::time::Duration::from_secs(60));
    /// ```
    pub const fn rate(mut self, requests: u32, span: Duration) -> Self {
        self.rate = Some((requests, span));
        self
    }

    /// What is wrong with it as the limit of `host`.
    pub(crate) fn check(&self, host: &str) -> Result<(), String> {
        let wrong = match (self.concurrent, self.rate) {
            (Some(0), _) => "no request at a time",
            (_, Some((0, _))) => "no request in a span of time",
            (_, Some((_, span))) if span.is_zero() => "a span of no time",
            (None, None) => "neither `concurrent` nor a rate",
            _ => return Ok(()),
        };
        Err(format!("the limit of {host} says {wrong}"))
    }

    /// The time between the beginnings of two requests.
    pub(crate) fn pace(&self) -> Option<Duration> {
        self.rate.and_then(|(requests, span)| span.checked_div(requests))
    }
}
