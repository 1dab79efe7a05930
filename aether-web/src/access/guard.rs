//! What is checked of every request before a page sees it.
//!
//! Promise: under a name that is not the console's nothing is answered, not even a form to sign in. A POST is taken from
//! a page of the console alone: its origin is compared, and its form has a token besides. Other methods are refused.

use std::sync::Arc;

use aether_serve::Stranger;
use axum::extract::{OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use crate::access::form::is_form;
use crate::access::headers::protect;
use crate::access::refusal::Refusal;
use crate::access::settings::Shared;
use crate::access::visit::{Theme, Visit};
use crate::permissions::User;

/// Name of the cookie with the colours.
pub(crate) const THEME: &str = "aether_theme";
/// Where one signs in.
pub(crate) const LOGIN: &str = "/login";
/// Where the files of pages are.
pub(crate) const ASSETS: &str = "/assets/";

/// Checks a request, names its user, and protects the answer.
pub(crate) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match admit(&shared, request) {
        Ok(request) => next.run(request).await,
        Err(refused) => *refused,
    };
    protect(response.headers_mut());
    response
}

type Checked<T> = Result<T, Box<Response>>;

fn refused<T>(status: StatusCode, why: impl ToString) -> Checked<T> {
    Err(Box::new(Refusal::plain(status, why)))
}

fn admit(shared: &Shared, request: Request) -> Checked<Request> {
    let (mut parts, body) = request.into_parts();
    let host = host(&parts)?;
    if !shared.settings.hosts.iter().any(|known| known == without_port(&host)) {
        let why = "the console is not reached under this name; its program can allow it with `.host(..)`";
        return refused(StatusCode::MISDIRECTED_REQUEST, why);
    }
    match parts.method {
        Method::GET | Method::HEAD => {}
        Method::POST => {
            is_own_page(&parts.headers, &host)?;
            is_form(&parts.headers).or_else(|(status, why)| refused(status, why))?;
        }
        _ => return refused(StatusCode::METHOD_NOT_ALLOWED, "the console knows GET, HEAD and POST"),
    }
    let path = parts.uri.path();
    let base = base(shared, &parts)?;
    let is_open = path == LOGIN || path.starts_with(ASSETS);
    let visit = match visitor(shared, &parts) {
        Some((user, session)) => {
            if let Some(stranger) = parts.extensions.get::<Stranger>() {
                stranger.let_in();
            }
            let asked =
                shared.settings.auth.as_ref().filter(|_| is_live(path)).map(|_| Arc::new(parts.clone()));
            Visit { asked, ..visit(shared, &parts.headers, base, user, session) }
        }
        None if is_open => visit(shared, &parts.headers, base, User::new(""), None),
        None if parts.method == Method::GET && shared.settings.auth.is_none() => {
            return Err(Box::new(Redirect::to(&format!("{base}{LOGIN}")).into_response()));
        }
        None => return refused(StatusCode::UNAUTHORIZED, "sign in first"),
    };
    parts.extensions.insert(visit);
    Ok(Request::from_parts(parts, body))
}

/// The name and port under which the console is asked for.
fn host(parts: &Parts) -> Checked<String> {
    let mut named = parts.headers.get_all(header::HOST).iter();
    let host = match (named.next(), named.next(), parts.uri.authority()) {
        (Some(host), None, _) => host.to_str().map(str::to_owned).unwrap_or_default(),
        (None, None, Some(authority)) => authority.to_string(),
        _ => String::new(),
    };
    if host.is_empty() {
        return refused(StatusCode::BAD_REQUEST, "the request names no host, or several");
    }
    Ok(host.to_ascii_lowercase())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

/// Whether a POST comes from a page of this console: browsers say so, and scripts of other sites cannot.
fn is_own_page(headers: &HeaderMap, host: &str) -> Checked<()> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text("sec-fetch-site");
    let origin = text("origin");
    let same_site = site.is_none_or(|site| site == "same-origin");
    let same_origin = origin.is_none_or(|origin| {
        let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    });
    if (site.is_none() && origin.is_none()) || !same_site || !same_origin {
        return refused(StatusCode::FORBIDDEN, "the request does not come from a page of this console");
    }
    Ok(())
}

/// Where the console is mounted, as the request came in.
fn base(shared: &Shared, parts: &Parts) -> Checked<String> {
    if let Some(base) = &shared.settings.base {
        return Ok(base.clone());
    }
    let whole = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |OriginalUri(uri)| uri);
    let base = mounted_at(whole, parts.uri.path());
    // What begins with two slashes is another host to a browser.
    if base.starts_with("//") || base.contains('\\') {
        return refused(StatusCode::BAD_REQUEST, "the path begins with two slashes");
    }
    Ok(base)
}

fn mounted_at(whole: &Uri, inner: &str) -> String {
    let whole = whole.path();
    whole.strip_suffix(inner).unwrap_or(whole).trim_end_matches('/').to_owned()
}

/// The value of a cookie.
pub(crate) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut each = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    each.find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn visitor(shared: &Shared, parts: &Parts) -> Option<(User, Option<String>)> {
    let settings = &shared.settings;
    if let Some(auth) = &settings.auth {
        return auth(parts).map(|user| (user, None));
    }
    // A page that is left open is no use of its session.
    let is_open = |id: &&str| match is_live(parts.uri.path()) {
        true => shared.sessions.is_still_open(id),
        false => shared.sessions.is_open(id),
    };
    let id = cookie(&parts.headers, shared.sessions.cookie()).filter(is_open)?;
    Some((User::new(&settings.actor).role(settings.role), Some(id.to_owned())))
}

/// Whether a page asks by itself, as long as it is open.
fn is_live(path: &str) -> bool {
    path.starts_with("/live/") || path.ends_with("/live")
}

/// Whether a request that is still being answered would be let in again, by the same name and in the same role.
pub(crate) fn is_still_let_in(shared: &Shared, visit: &Visit) -> bool {
    match (&shared.settings.auth, &visit.asked, &visit.session) {
        (Some(auth), Some(asked), _) => auth(asked).is_some_and(|user| user == visit.user),
        (None, _, Some(session)) => shared.sessions.is_still_open(session),
        _ => false,
    }
}

fn visit(shared: &Shared, headers: &HeaderMap, base: String, user: User, session: Option<String>) -> Visit {
    let subject = match &session {
        Some(id) => format!("session {id}"),
        None => format!("user {}", user.name()),
    };
    Visit {
        form_token: shared.sessions.form_token(&subject),
        theme: cookie(headers, THEME).and_then(Theme::parse).unwrap_or_default(),
        allowed: shared.settings.allowed,
        user,
        base,
        session,
        asked: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_knows_where_it_is_mounted() {
        let at = |whole: &str, inner: &str| mounted_at(&whole.parse().unwrap(), inner);
        assert_eq!([at("/", "/"), at("/runs", "/runs")], ["", ""]);
        assert_eq!([at("/admin", "/"), at("/admin/", "/")], ["/admin"; 2]);
        assert_eq!(at("/admin/agents/runs/a%2Fb", "/runs/a%2Fb"), "/admin/agents");
    }

    #[test]
    fn the_port_is_not_part_of_a_name() {
        let named = ["localhost:8080", "localhost", "127.0.0.1:1", "[::1]:80", "[::1]"].map(without_port);
        assert_eq!(named, ["localhost", "localhost", "127.0.0.1", "[::1]", "[::1]"]);
    }

    #[test]
    fn a_post_of_another_page_is_refused() {
        let sent = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            is_own_page(&headers, "localhost:80").is_ok()
        };
        let (site, origin) = ("sec-fetch-site", "origin");
        assert!(sent(&[(origin, "http://localhost:80")]));
        assert!(sent(&[(site, "same-origin")]));
        assert!(sent(&[(site, "same-origin"), (origin, "https://localhost:80")]));
        for headers in [
            &[][..],
            &[(origin, "null")],
            &[(origin, "http://localhost:81")],
            &[(origin, "http://localhost:80.evil.example")],
            &[(origin, "ftp://localhost:80")],
            &[(site, "none")],
            &[(site, "same-site")],
            &[(site, "cross-site"), (origin, "http://localhost:80")],
            &[(site, "same-origin"), (origin, "http://evil.example")],
        ] {
            assert!(!sent(headers), "{headers:?}");
        }
    }
}
