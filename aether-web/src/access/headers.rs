//! What every answer says to browsers.
//!
//! Promise: no page runs or loads what the console itself does not serve, none stands in a frame of another site, and no
//! address with a token is told to anyone.

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};

const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; object-src 'none'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const FIXED: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // The path of an address is never sent on, and forms still say where they come from.
    (header::REFERRER_POLICY, "strict-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];

/// Sets them all. What is not for everyone is kept by nobody.
pub(crate) fn protect(headers: &mut HeaderMap) {
    for (name, value) in FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
