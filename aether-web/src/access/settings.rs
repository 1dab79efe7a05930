//! What a console was built with.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use aether_core::engine::Engine;
use aether_effects::llm::PriceTable;
use axum::http::request::Parts;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};

use crate::access::sessions::Sessions;
use crate::permissions::{Actions, Role, User};
use crate::spending::Spendings;

/// Most pages that are live at one time.
const LIVE: usize = 128;

/// The program's own authentication.
pub(crate) type Auth = Arc<dyn Fn(&Parts) -> Option<User> + Send + Sync>;

/// How a program says which token opens its console.
pub(crate) type Announce = Arc<dyn Fn(&str) + Send + Sync>;

/// What a console was built with.
pub(crate) struct Settings {
    pub(crate) engine: Engine,
    pub(crate) allowed: Actions,
    /// Names under which it is reached, in lower case, without a port.
    pub(crate) hosts: Vec<String>,
    pub(crate) auth: Option<Auth>,
    /// Whoever opens it by a token.
    pub(crate) actor: String,
    pub(crate) role: Role,
    pub(crate) prices: Option<PriceTable>,
    /// JSON Schemas of the arguments of steps, by the step's name.
    pub(crate) schemas: HashMap<String, Value>,
    /// Where it is mounted, where a proxy hides that.
    pub(crate) base: Option<String>,
    pub(crate) secure: bool,
    /// Told the token that is made for whoever has none.
    pub(crate) announce: Option<Announce>,
}

/// What all requests to one console share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) sessions: Arc<Sessions>,
    /// One for every page that may be live.
    pub(crate) live: Arc<Semaphore>,
    pub(crate) spendings: Spendings,
    /// JSON Schemas of calls that wait, as models of their runs were told, by what is shown of the wait.
    pub(crate) told: std::sync::Mutex<HashMap<String, Option<Value>>>,
    /// Held while a fork is started.
    pub(crate) forks: Mutex<()>,
}

impl Shared {
    pub(crate) fn new(settings: Settings, sessions: Arc<Sessions>) -> Self {
        let live = Arc::new(Semaphore::new(LIVE));
        Self {
            settings,
            sessions,
            live,
            spendings: Spendings::default(),
            told: std::sync::Mutex::default(),
            forks: Mutex::default(),
        }
    }

    /// Says another token where somebody has none and none is left: the only one was used, and its session is lost.
    pub(crate) fn announce(&self) {
        // Where the program says who makes a request, no token opens anything.
        if self.settings.auth.is_some() {
            return;
        }
        let Some(announce) = &self.settings.announce else { return };
        match self.sessions.mint_if_none_is_left() {
            Ok(Some(token)) => {
                // What nobody was told would count as a token that is left, and no other one would be said.
                if catch_unwind(AssertUnwindSafe(|| announce(&token))).is_err() {
                    self.sessions.withdraw(&token);
                    tracing::error!(
                        "what announces the token of the console panicked; it is asked again next time"
                    );
                }
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "nobody can open the console"),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.settings.engine
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("allowed", &self.allowed)
            .field("hosts", &self.hosts)
            .field("actor", &self.actor)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}
