//! The connections of a client, and their TLS.
//!
//! Promise: TLS uses its own provider (ring) and the platform's certificates, whatever the program installed. A request goes
//! over connections of the runtime that sends it: a connection is driven by a task of the runtime that opened it, and an
//! exchange over it fails when that runtime ends, however far it came. In a program with several runtimes, as the tests of
//! most programs are, each has its own.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::{Url, redirect};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::runtime::{Handle, Id};

use crate::recorded_error::chain;

/// Longest time to make a connection; an exchange that ends here has sent nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Redirects that are followed, one after the other.
const REDIRECTS: usize = 10;

/// So many runtimes' connections are kept. One that is not among them opens new ones.
const RUNTIMES: usize = 64;

/// Connections of one runtime, by what may be sent over them.
#[derive(Clone)]
pub(super) struct Pool {
    /// Follows redirects, to other hosts as well.
    pub(super) safe: reqwest::Client,
    /// Follows redirects to the same host: what is secret is for this host only.
    pub(super) secretive: reqwest::Client,
    /// Follows none: a request that changes the world goes to one place.
    pub(super) changing: reqwest::Client,
}

impl Pool {
    fn new() -> Result<Self, String> {
        let pool = |redirects| {
            let connections = connections()?.redirect(redirects);
            connections.build().map_err(|error| chain(&error))
        };
        Ok(Self {
            safe: pool(redirect::Policy::limited(REDIRECTS))?,
            secretive: pool(redirect::Policy::custom(within_one_host))?,
            changing: pool(redirect::Policy::none())?,
        })
    }
}

/// Those of all runtimes, the one that asked last at the end. Outside of a runtime nothing can be sent.
pub(super) struct Pools(Mutex<Vec<(Option<Id>, Pool)>>);

impl Pools {
    /// # Errors
    /// Why TLS cannot be set up.
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self(Mutex::new(vec![(runtime(), Pool::new()?)])))
    }

    /// The connections of this runtime.
    ///
    /// # Errors
    /// As of [`Pools::new`].
    pub(super) fn here(&self) -> Result<Pool, String> {
        let here = runtime();
        if let Some(pool) = self.known(here) {
            return Ok(pool);
        }
        let new = Pool::new()?;
        // Another thread of this runtime may have been faster.
        if let Some(pool) = self.known(here) {
            return Ok(pool);
        }
        let mut pools = self.lock();
        pools.push((here, new.clone()));
        let more = pools.len().saturating_sub(RUNTIMES);
        pools.drain(..more);
        Ok(new)
    }

    fn known(&self, here: Option<Id>) -> Option<Pool> {
        let mut pools = self.lock();
        let at = pools.iter().rposition(|(of, _)| *of == here)?;
        let (_, pool) = pools.remove(at);
        pools.push((here, pool.clone()));
        Some(pool)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Option<Id>, Pool)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// Follows a redirect that leads to where the request went.
fn within_one_host(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let origin =
        |url: &Url| (url.scheme() == "https", url.host_str().map(str::to_owned), url.port_or_known_default());
    let first = attempt.previous().first().map(origin);
    if attempt.previous().len() > REDIRECTS {
        attempt.error("too many redirects")
    } else if first == Some(origin(attempt.url())) {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// Settings of connections: TLS with a provider of its own, and no redirects.
pub(super) fn connections() -> Result<reqwest::ClientBuilder, String> {
    static TLS: OnceLock<Result<ClientConfig, String>> = OnceLock::new();
    let tls = TLS.get_or_init(tls).clone()?;
    let user_agent = concat!("aether/", env!("CARGO_PKG_VERSION"));
    let connections = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).user_agent(user_agent);
    // A `Referer` would tell the next host the URL that led there, with the secrets in its query.
    let connections = connections.referer(false);
    // Another crate of the program may have it compiled in: limits are of what comes over the network.
    let connections = connections.no_gzip().no_brotli().no_zstd().no_deflate();
    Ok(connections.redirect(redirect::Policy::none()).tls_backend_preconfigured(tls))
}

/// TLS with ring, checking certificates as the platform does.
fn tls() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(match Verifier::new(provider) {
        Ok(verifier) => {
            config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
        Err(error) => {
            tracing::warn!(%error, "no certificates on this system: every https connection will be refused");
            config.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    })
}
