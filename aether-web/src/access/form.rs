//! Forms: read within limits of size and time, and only with the token of the page that they stand on.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt as _;

use crate::access::refusal::Refusal;
use crate::access::sessions::same;
use crate::access::visit::Visit;

/// Most bytes of a form.
const MOST: usize = 1024 * 1024;
/// How long a client may take to send one.
const WITHIN: Duration = Duration::from_secs(10);
/// Name of the field with the token.
pub(crate) const TOKEN: &str = "form_token";

/// The fields of a form that the page of this session sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// The first field of this name; empty where there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether there is a field whose name begins like this.
    pub(crate) fn has_prefix(&self, prefix: &str) -> bool {
        self.0.iter().any(|(known, _)| known.starts_with(prefix))
    }

    /// Names of the fields that begin like this, in the order in which they were sent.
    pub(crate) fn names<'f>(&'f self, prefix: &'f str) -> impl Iterator<Item = &'f str> {
        self.0.iter().map(|(name, _)| name.as_str()).filter(move |name| name.starts_with(prefix))
    }

    /// Reads a body, without asking for a token.
    pub(crate) async fn read(body: Body) -> Result<Self, (StatusCode, &'static str)> {
        let mut bytes = Vec::new();
        let all = async {
            let mut pieces = body.into_data_stream();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|_| (StatusCode::BAD_REQUEST, "the form was cut off"))?;
                if bytes.len() + piece.len() > MOST {
                    return Err((StatusCode::PAYLOAD_TOO_LARGE, "a form has at most 1 MiB"));
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(())
        };
        match tokio::time::timeout(WITHIN, all).await {
            Ok(read) => read?,
            Err(_) => return Err((StatusCode::REQUEST_TIMEOUT, "the form did not come within 10 s")),
        }
        Ok(Self(fields(&bytes)))
    }
}

/// The fields of a form or of a query.
pub(crate) fn fields(bytes: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(bytes).into_owned().collect()
}

/// Whether the headers say that a form comes, and not more than is taken.
pub(crate) fn is_form(headers: &axum::http::HeaderMap) -> Result<(), (StatusCode, &'static str)> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "the console takes forms only"));
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length.map(str::parse::<usize>) {
        Some(Ok(length)) if length <= MOST => Ok(()),
        Some(_) => Err((StatusCode::PAYLOAD_TOO_LARGE, "a form has at most 1 MiB")),
        None => Ok(()),
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let Some(visit) = parts.extensions.get::<Visit>() else {
            return Err(Refusal::plain(StatusCode::UNAUTHORIZED, "nobody is signed in"));
        };
        let form = match Self::read(body).await {
            Ok(form) => form,
            Err((status, why)) => return Err(Refusal::plain(status, why)),
        };
        if visit.form_token.is_empty() || !same(form.get(TOKEN), &visit.form_token) {
            let why = "the form has no token of this session: load the page again, and send it from there";
            return Err(Refusal::plain(StatusCode::FORBIDDEN, why));
        }
        Ok(form)
    }
}
