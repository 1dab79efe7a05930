//! Signing in with a token that works once, signing out, and the choice of colours.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};

use crate::access::form::{Form, fields};
use crate::access::guard::THEME;
use crate::access::refusal::Refusal;
use crate::access::settings::Shared;
use crate::access::visit::{Theme, Visit, home, place};
use crate::pages::shell::{Answer, html};

#[derive(Debug, Template)]
#[template(path = "login.html")]
struct Page {
    base: String,
    theme: Theme,
    token: Option<String>,
}

/// Asks for a token, or to go on with the one of the address: a form sends it, so that looking at the address, as some
/// programs do with every link, does not use it up.
pub(crate) async fn page(
    State(shared): State<Arc<Shared>>,
    Extension(visit): Extension<Visit>,
    uri: Uri,
) -> Answer {
    let query = fields(uri.query().unwrap_or_default().as_bytes());
    let token = query.into_iter().find(|(name, _)| name == "token").map(|(_, token)| token);
    if token.is_none() && visit.session.is_none() {
        shared.announce();
    }
    html(&Page { base: visit.base, theme: visit.theme, token })
}

/// Opens a session.
pub(crate) async fn login(
    State(shared): State<Arc<Shared>>,
    Extension(visit): Extension<Visit>,
    body: Body,
) -> Answer {
    // The token itself says that the form was meant; whoever has none sends no useful form.
    let form = Form::read(body).await.map_err(|(status, why)| Refusal::plain(status, why))?;
    let session = shared.sessions.exchange(form.get("token").trim());
    let session = session.map_err(|error| Refusal::plain(StatusCode::SERVICE_UNAVAILABLE, error))?;
    let Some(session) = session else {
        let why = "This token was used before, or is none of this console. Each opens one session: the program \
                   says another one when somebody asks to sign in.";
        return Err(Refusal::page(&visit, StatusCode::FORBIDDEN, why, "/login"));
    };
    let mut answer = Redirect::to(&home(&visit.base)).into_response();
    set(&shared, &visit, &mut answer, (shared.sessions.cookie(), &session), "HttpOnly; SameSite=Strict");
    Ok(answer)
}

/// Closes the session.
pub(crate) async fn logout(
    State(shared): State<Arc<Shared>>,
    Extension(visit): Extension<Visit>,
    _form: Form,
) -> Answer {
    if let Some(session) = &visit.session {
        shared.sessions.close(session);
    }
    let mut answer = Redirect::to(&format!("{}/login", visit.base)).into_response();
    set(&shared, &visit, &mut answer, (shared.sessions.cookie(), ""), "HttpOnly; SameSite=Strict; Max-Age=0");
    Ok(answer)
}

/// Keeps the choice of colours, and shows the page again.
pub(crate) async fn theme(
    State(shared): State<Arc<Shared>>,
    Extension(visit): Extension<Visit>,
    form: Form,
) -> Answer {
    let theme = Theme::parse(form.get("theme")).unwrap_or_default();
    let at = inside(form.get("at"));
    let mut answer = Redirect::to(&place(&visit.base, at)).into_response();
    let keep = "HttpOnly; SameSite=Strict; Max-Age=31536000";
    set(&shared, &visit, &mut answer, (THEME, theme.as_str()), keep);
    Ok(answer)
}

/// A place inside of this console; the first page for any other text.
fn inside(at: &str) -> &str {
    let is_plain = |c: char| c.is_ascii_graphic() && !"\\\"<>".contains(c);
    let is_path = at.starts_with('/') && !at.starts_with("//") && at.chars().all(is_plain);
    // Parts that lead up would leave the console where it is nested.
    let leads_up = at
        .split(['/', '?', '#'])
        .any(|part| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), ".." | "."));
    if is_path && !leads_up { at } else { "/" }
}

fn set(shared: &Shared, visit: &Visit, answer: &mut Response, (name, value): (&str, &str), terms: &str) {
    let path = if visit.base.is_empty() { "/" } else { &visit.base };
    let secure = if shared.settings.secure { "; Secure" } else { "" };
    if let Ok(cookie) = HeaderValue::from_str(&format!("{name}={value}; Path={path}; {terms}{secure}")) {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn nobody_is_sent_to_another_place() {
        for at in ["/", "/runs/a%2Fb?step=0:x&page=2", "/inbox"] {
            assert_eq!(inside(at), at);
        }
        let hostile = [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "\\\\evil",
            "/a b",
            "/a\r\nSet-Cookie: x=1",
            "/../x",
            "/a/%2e%2E/b",
            "javascript:alert(1)",
            "/\u{e4}",
            "/a\"b",
        ];
        for at in hostile {
            assert_eq!(inside(at), "/", "{at:?}");
        }
    }
}
