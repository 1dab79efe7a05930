//! What is answered to a request that is not taken: a page that says why, and what to do.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

use crate::access::visit::{Theme, Visit, place};
use crate::text::markup::{rendered, straight};

/// A request that was not taken.
#[derive(Debug, Template)]
#[template(path = "refusal.html")]
pub(crate) struct Refusal {
    title: &'static str,
    why: String,
    base: String,
    theme: Theme,
    /// Where to go on.
    back: String,
    status: StatusCode,
}

impl Refusal {
    /// For somebody who is signed in.
    pub(crate) fn page(visit: &Visit, status: StatusCode, why: impl ToString, back: &str) -> Response {
        let (base, theme) = (visit.base.clone(), visit.theme);
        let back = place(&base, back);
        Self { title: title(status), why: why.to_string(), base, theme, back, status }.into_response()
    }

    /// For nobody in particular: a text.
    pub(crate) fn plain(status: StatusCode, why: impl ToString) -> Response {
        (status, straight(format!("{}\n", why.to_string()))).into_response()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match rendered(&self) {
            Ok(page) => (self.status, Html(page)).into_response(),
            Err(_) => (self.status, straight(self.why)).into_response(),
        }
    }
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "There is nothing here",
        StatusCode::FORBIDDEN => "That is not allowed here",
        StatusCode::CONFLICT => "It has changed meanwhile",
        StatusCode::UNPROCESSABLE_ENTITY => "That does not fit",
        status if status.is_server_error() => "The store did not answer",
        _ => "That was not taken",
    }
}
