//! The kinds of resources, and the version of one that is not there.

/// Kind under which files are reported.
pub const FILE: &str = "file";
/// Kind under which what an HTTP server keeps is reported.
pub const HTTP: &str = "http";
/// Kind under which what an HTTP server keeps is reported where secrets of its URL are masked. [`HttpVerifier`](super::HttpVerifier)
/// cannot look at it.
pub const HTTP_MASKED: &str = "http-masked";

/// Version of a resource that is not there.
pub(crate) const ABSENT: &str = "absent";
