//! What engines get where their program says nothing else: the system's clock and entropy, and verifiers.
//!
//! Promise: a program that links this crate starts engines without saying where the time comes from.

use std::sync::Arc;

use aether_core::engine::Defaults;
use aether_core::private::inventory;

use crate::environment::SystemEnvironment;
use crate::resource::file::FileVerifier;
use crate::resource::http::HttpVerifier;
use crate::resource::kind::{FILE, HTTP};

inventory::submit! {
    Defaults {
        environment: || Arc::new(SystemEnvironment),
        verifiers: || vec![
            (FILE, Arc::new(FileVerifier::new())),
            (HTTP, Arc::new(HttpVerifier::default())),
        ],
    }
}
