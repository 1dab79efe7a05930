//! What of an exchange may stand in a journal: URLs with their secrets masked, and allow-listed headers.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Url;
use reqwest::header::{HeaderMap, LOCATION};

const MASK: &str = "***";

/// Headers that are recorded; all others are left out.
const ALLOWED: [&str; 15] = [
    "accept",
    "cache-control",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "etag",
    "if-match",
    "if-none-match",
    "idempotency-key",
    "last-modified",
    "location",
    "retry-after",
    "x-correlation-id",
    "x-request-id",
];

/// Headers that are never recorded, whatever a program allows: those with such a word in their names, without `-` and `_`.
const FORBIDDEN: [&str; 7] =
    ["authorization", "cookie", "credential", "secret", "password", "passwd", "apikey"];

/// The same for names that end so. `x-ratelimit-remaining-tokens` is a number.
const FORBIDDEN_ENDS: [&str; 12] = [
    "accesskey",
    "accountkey",
    "appkey",
    "applicationkey",
    "authkey",
    "functionskey",
    "jwt",
    "masterkey",
    "privatekey",
    "subscriptionkey",
    "token",
    "xauth",
];

/// Ends of names that are places in a list, and no credentials.
const PLACES: [&str; 6] =
    ["continuationtoken", "cursortoken", "nextpagetoken", "nexttoken", "pagetoken", "synctoken"];

/// Headers that say nothing a server which a request is redirected to may not know.
const HARMLESS: [&str; 17] = [
    "accept",
    "cache-control",
    "date",
    "dnt",
    "idempotency-key",
    "origin",
    "pragma",
    "prefer",
    "priority",
    "range",
    "request-id",
    "te",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-correlation-id",
    "x-request-id",
];

/// Query parameters that hold secrets, by name.
const SECRET_NAMES: [&str; 8] = ["auth", "credentials", "key", "pass", "pwd", "session", "sid", "sig"];

/// Query parameters that hold secrets, by a part of their name without `-` and `_`.
const SECRET_PARTS: [&str; 8] =
    ["token", "secret", "password", "passwd", "signature", "credential", "apikey", "authorization"];

/// Whether a header holds credentials by its name.
pub(crate) fn is_forbidden(header: &str) -> bool {
    let name = plain(header);
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    FORBIDDEN.iter().any(|word| name.contains(word)) || ends(&FORBIDDEN_ENDS) && !ends(&PLACES)
}

/// Whether any server may see these headers. What another header is for, nobody can tell by its name.
pub(crate) fn are_harmless(headers: &HeaderMap) -> bool {
    let is_harmless = |name: &str| {
        HARMLESS.contains(&name)
            || ["accept-", "content-", "if-"].iter().any(|begin| name.starts_with(begin))
            || name.ends_with("-version")
    };
    let none_is_secret = headers.values().all(|value| !value.is_sensitive());
    none_is_secret && headers.keys().all(|name| is_harmless(name.as_str()) && !is_forbidden(name.as_str()))
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether a query parameter holds a secret by its name: a parameter is as telling as a header of that name.
fn is_secret(parameter: &str) -> bool {
    let name = plain(parameter);
    SECRET_NAMES.contains(&&*name)
        || SECRET_PARTS.iter().any(|part| name.contains(part))
        || is_forbidden(parameter)
}

/// `url` without user name, password, fragment and the values of secret query parameters.
pub(crate) fn url(url: &Url) -> String {
    let mut masked = url.clone();
    masked.set_fragment(None);
    if !url.username().is_empty() || url.password().is_some() {
        // Only URLs without a host refuse this, and they hold no credentials.
        let _ = masked.set_password(None);
        let _ = masked.set_username(MASK);
    }
    if url.query_pairs().any(|(name, _)| is_secret(&name)) {
        let mut pairs = masked.query_pairs_mut();
        pairs.clear();
        for (name, value) in url.query_pairs() {
            pairs.append_pair(&name, if is_secret(&name) { MASK } else { &value });
        }
    }
    masked.to_string()
}

/// A recorded URL as [`url`] shows it today; what is no URL stays.
pub(crate) fn again(recorded: &str) -> String {
    Url::parse(recorded).map_or_else(|_| recorded.to_owned(), |parsed| url(&parsed))
}

/// Whether [`url`] leaves out what a server tells resources apart by. A fragment it never sees.
pub(crate) fn hides(url: &Url) -> bool {
    let has_user = !url.username().is_empty() || url.password().is_some();
    has_user || url.query_pairs().any(|(name, _)| is_secret(&name))
}

/// Whether [`url`] made this text of a URL with secrets.
pub(crate) fn is_masked(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        url.username() == MASK || url.query_pairs().any(|(name, value)| value == MASK && is_secret(&name))
    })
}

/// A text that should have been a URL, cut before anything that may be secret.
pub(crate) fn unparsable(text: &str) -> String {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let text = &text[..end];
    text.rsplit_once('@').map_or(text, |(_, host)| host).chars().take(100).collect()
}

/// Whether a header of this name, in lower case, may be recorded; `extra` are allowed besides the usual ones.
pub(crate) fn is_recorded(name: &str, extra: &BTreeSet<String>) -> bool {
    (ALLOWED.contains(&name) || extra.contains(name)) && !is_forbidden(name)
}

/// The headers that may be recorded; `extra` are allowed besides the usual ones.
pub(crate) fn headers(headers: &HeaderMap, extra: &BTreeSet<String>, base: &Url) -> BTreeMap<String, String> {
    let mut recorded = BTreeMap::new();
    for name in headers.keys() {
        let text = name.as_str();
        if !is_recorded(text, extra) {
            continue;
        }
        let values: Vec<_> = headers
            .get_all(name)
            .iter()
            .filter(|value| !value.is_sensitive())
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .map(|value| if name == LOCATION { location(&value, base) } else { value })
            .collect();
        if !values.is_empty() {
            recorded.insert(text.to_owned(), values.join(", "));
        }
    }
    recorded
}

/// What is recorded of the `location` of an answer from `base`: an absolute URL with its secrets masked.
pub(crate) fn location(value: &str, base: &Url) -> String {
    base.join(value).map_or_else(|_| unparsable(value), |target| url(&target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        url(&Url::parse(text).unwrap())
    }

    #[test]
    fn secrets_of_a_url_are_masked_and_the_rest_stays() {
        assert_eq!(masked("https://me:pw@h.example/p?a=1#frag"), "https://***@h.example/p?a=1");
        assert_eq!(masked("https://h/?q=x&api_key=s3cret"), "https://h/?q=x&api_key=***");
        assert_eq!(masked("https://h/?X-Amz-Signature=s&b=2"), "https://h/?X-Amz-Signature=***&b=2");
        assert_eq!(masked("https://h/?monkey=1"), "https://h/?monkey=1");
        for (text, hidden) in [
            ("https://me:pw@h.example/p", true),
            ("https://h/item?key=users/7", true),
            ("https://h/item?id=7#frag", false),
        ] {
            assert_eq!(
                (hides(&Url::parse(text).unwrap()), is_masked(&masked(text))),
                (hidden, hidden),
                "{text}"
            );
        }
        assert_eq!(unparsable("user:pw@host/path?token=1"), "host/path");
    }

    #[test]
    fn a_parameter_with_the_name_of_a_secret_header_is_masked() {
        assert_eq!(
            masked("https://h/?access_key=s&subscription-key=t&jwt=u&a=1"),
            "https://h/?access_key=***&subscription-key=***&jwt=***&a=1"
        );
        for name in ["app_key", "application_key", "account_key", "master_key", "X-Auth"] {
            assert_eq!(masked(&format!("https://h/?{name}=s")), format!("https://h/?{name}=***"));
        }
        assert_eq!(masked("https://h/?sort_key=a&monkey=1"), "https://h/?sort_key=a&monkey=1");
        for text in ["https://h/?jwt=s&q=a+b%20c%26", "https://me:pw@h/?a=%C3%BC", "no URL"] {
            let once = again(text);
            assert_eq!(again(&once), once, "twice is once");
        }
    }

    #[test]
    fn credentials_are_known_by_their_names_and_what_is_not_known_stays_at_its_host() {
        let credentials = "authorization proxy-authorization cookie set-cookie x-api-key api-key x-auth-token \
            x-amz-security-token x-vault-token x-goog-api-key ocp-apim-subscription-key private-token x-apikey \
            x-client-secret x-user-password x-auth-key x-functions-key dd-application-key x_access_token";
        for name in credentials.split_whitespace() {
            assert!(is_forbidden(name), "{name}");
        }
        let others =
            "idempotency-key etag x-ratelimit-remaining-tokens x-request-id surrogate-key www-authenticate";
        for name in others.split_whitespace() {
            assert!(!is_forbidden(name), "{name}");
        }
        let harmless = |name: &str| {
            let name = reqwest::header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            are_harmless(&HeaderMap::from_iter([(name, "v".parse().unwrap())]))
        };
        for name in ["accept", "accept-language", "if-none-match", "range", "traceparent", "x-api-version"] {
            assert!(harmless(name), "{name}");
        }
        for name in ["x-tenant", "x-session", "x-vault-token", "authorization", "content-secret", "host"] {
            assert!(!harmless(name), "{name}");
        }
        for name in ALLOWED {
            assert!(!is_forbidden(name), "{name}");
        }
    }

    #[test]
    fn no_program_can_allow_a_credential() {
        let base = Url::parse("https://h/").unwrap();
        let mut all = HeaderMap::new();
        for name in ["authorization", "set-cookie", "x-other", "etag"] {
            all.insert(name, "v".parse().unwrap());
        }
        all.insert(LOCATION, "/next?token=t".parse().unwrap());
        let extra = ["authorization", "set-cookie", "x-other"].map(str::to_owned).into();
        let recorded = headers(&all, &extra, &base);
        assert_eq!(recorded.keys().collect::<Vec<_>>(), ["etag", "location", "x-other"]);
        assert_eq!(recorded["location"], "https://h/next?token=***");
    }
}
