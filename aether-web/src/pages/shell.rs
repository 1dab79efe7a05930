//! What all pages have in common: the frame around them, and how a failing store is answered.

use std::sync::Arc;

use aether_core::id::RunId;
use aether_core::store::{StoreError, WaitFilter};
use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{Html, IntoResponse, Response};
use jiff::Timestamp;

use crate::access::form::fields;
use crate::access::refusal::Refusal;
use crate::access::settings::Shared;
use crate::access::visit::{Theme, Visit};
use crate::assets;
use crate::text::time::When;

/// A page, or the answer that says why there is none.
pub(crate) type Answer = Result<Response, Response>;

/// One request to a page.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) shared: Arc<Shared>,
    pub(crate) visit: Visit,
    pub(crate) query: Vec<(String, String)>,
    /// Path and query inside of the console.
    at: String,
    pub(crate) now: Timestamp,
}

impl FromRequestParts<Arc<Shared>> for Ask {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Response> {
        let Some(visit) = parts.extensions.get::<Visit>().cloned() else {
            return Err(Refusal::plain(StatusCode::UNAUTHORIZED, "nobody is signed in"));
        };
        Ok(Self {
            shared: Arc::clone(shared),
            visit,
            query: fields(parts.uri.query().unwrap_or_default().as_bytes()),
            at: parts.uri.path_and_query().map(|at| at.as_str().to_owned()).unwrap_or_default(),
            now: Timestamp::now(),
        })
    }
}

impl Ask {
    /// The first value of this name in the query that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut named = self.query.iter().filter(|(known, value)| known == name && !value.is_empty());
        named.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn when(&self, at: Timestamp) -> When {
        When::new(at, self.now)
    }

    /// The id that stands in a path.
    pub(crate) fn run(&self, id: &str) -> Result<RunId, Response> {
        RunId::new(id).map_err(|error| Refusal::page(&self.visit, StatusCode::NOT_FOUND, error, "/"))
    }

    /// The answer to an error of the store.
    pub(crate) fn store(&self, error: &StoreError) -> Response {
        let status = match error {
            StoreError::UnknownRun { .. } => StatusCode::NOT_FOUND,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal::page(&self.visit, status, error, "/")
    }

    /// The frame of a page.
    pub(crate) async fn shell(
        &self,
        section: &'static str,
        title: impl Into<String>,
    ) -> Result<Shell, Response> {
        let visit = &self.visit;
        let open = WaitFilter { limit: 100, ..WaitFilter::for_reply() };
        let open = self.shared.engine().all_pending(open).await.map_err(|error| self.store(&error))?;
        let inbox = match (open.waits.len(), open.next) {
            (0, _) => String::new(),
            (_, Some(_)) => "99+".to_owned(),
            (count, None) => count.to_string(),
        };
        Ok(Shell {
            title: title.into(),
            base: visit.base.clone(),
            at: self.at.clone(),
            section,
            theme: visit.theme,
            form_token: visit.form_token.clone(),
            user: visit.user.name().to_owned(),
            audits: visit.audits(),
            read_only: visit.allowed == crate::permissions::Actions::NONE,
            flash: self.get("done").map(done).unwrap_or_default(),
            inbox,
        })
    }
}

/// The frame of a page.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    pub(crate) title: String,
    pub(crate) base: String,
    pub(crate) at: String,
    pub(crate) section: &'static str,
    pub(crate) theme: Theme,
    pub(crate) form_token: String,
    pub(crate) user: String,
    pub(crate) audits: bool,
    pub(crate) read_only: bool,
    pub(crate) flash: &'static str,
    pub(crate) inbox: String,
}

impl Shell {
    pub(crate) fn version(&self) -> &'static str {
        assets::version()
    }

    pub(crate) fn themes(&self) -> &'static [Theme] {
        &Theme::ALL
    }
}

/// What was done, as the page says it that follows. The address holds a word of these alone.
fn done(what: &str) -> &'static str {
    match what {
        "approved" => "Approved. The run goes on.",
        "edited" => "Approved with your changes. The run goes on.",
        "rejected" => "Rejected. The workflow is told so.",
        "answered" => "Answered. The run goes on.",
        "resolved" => "Recorded what became of the call.",
        "confirmed" => "Recorded your decision about the resource.",
        "signalled" => "Signal sent.",
        "duplicate" => "That was sent before; nothing was sent again.",
        "cancelling" => "Asked the run to end. What can be undone is undone.",
        "terminated" => "Asked the run to end at once.",
        "forked" => "Forked. This is the new run.",
        "ended" => "The run had ended already; nothing was sent.",
        _ => "",
    }
}

/// A template as an answer.
pub(crate) fn html(page: &impl Template) -> Answer {
    match page.render() {
        Ok(page) => Ok(Html(page).into_response()),
        Err(error) => {
            tracing::error!(%error, "a page of the console could not be made");
            Err(Refusal::plain(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made"))
        }
    }
}
