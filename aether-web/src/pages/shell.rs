//! What all pages have in common: the frame around them, and how a failing store is answered.

use std::sync::Arc;

use aether_core::id::RunId;
use aether_core::store::{StoreError, WaitFilter};
use aether_core::view::pending::Waiting;
use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{Html, IntoResponse, Response};
use jiff::Timestamp;

use crate::access::form::fields;
use crate::access::guard::is_still_let_in;
use crate::access::refusal::Refusal;
use crate::access::settings::Shared;
use crate::access::visit::{Theme, Visit, home};
use crate::assets;
use crate::text::markup::rendered;
use crate::text::time::When;

/// What the inbox lists and its badge counts.
pub(crate) const DECISIONS: [Waiting; 4] =
    [Waiting::Approval, Waiting::Question, Waiting::Resolution, Waiting::Confirmation];

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

    /// How many decisions wait, as the inbox's badge says it: of those that the inbox lists.
    pub(crate) async fn open_decisions(&self) -> Result<String, StoreError> {
        let listed = DECISIONS.iter().copied().fold(WaitFilter::default(), WaitFilter::kind);
        let open = WaitFilter { limit: 100, ..listed };
        let open = self.shared.engine().all_pending(open).await?;
        Ok(match (open.waits.len() + open.unreadable.len(), open.next) {
            (0, _) => String::new(),
            (_, Some(_)) => "99+".to_owned(),
            (count, None) => count.to_string(),
        })
    }

    /// Whether who asked would be let in again.
    pub(crate) fn is_still_let_in(&self) -> bool {
        is_still_let_in(&self.shared, &self.visit)
    }

    /// The frame of a page.
    pub(crate) async fn shell(
        &self,
        section: &'static str,
        title: impl Into<String>,
    ) -> Result<Shell, Response> {
        let visit = &self.visit;
        let inbox = self.open_decisions().await.map_err(|error| self.store(&error))?;
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
            now: self.now.to_string(),
            has_session: visit.session.is_some(),
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
    /// The time of the server.
    pub(crate) now: String,
    /// Whether there is something to sign out of.
    pub(crate) has_session: bool,
    pub(crate) flash: &'static str,
    pub(crate) inbox: String,
}

impl Shell {
    pub(crate) fn version(&self) -> &'static str {
        assets::version()
    }

    /// Where the list of runs is.
    pub(crate) fn home(&self) -> String {
        home(&self.base)
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
        "recorded" => "Recorded. It takes effect when a program takes the run up.",
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
    match rendered(page) {
        Ok(page) => Ok(Html(page).into_response()),
        Err(error) => {
            tracing::error!(%error, "a page of the console could not be made");
            Err(Refusal::plain(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made"))
        }
    }
}
