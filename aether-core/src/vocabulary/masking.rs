//! Masking: finding the secrets in a recording, and replacing them.
//!
//! Promise: a secret that was found is replaced everywhere in the recording, by the same text, so that code which only
//! passes it on still matches; digests are computed again. What is not found is not masked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::vocabulary::callback_token::CallbackToken;
use crate::vocabulary::quoted_text::places;
use crate::vocabulary::spans::{Values, members, merged, telling};
use crate::vocabulary::walk::{Leaf, Place, Rewrite, quoted, rewrite, rewrite_inner};

/// Replacement for a secret where different secrets need not be distinguished.
pub const MASK: &str = "***";
/// Members and headers that hold secrets, by their names without `-` and `_` and in lower case.
const NAMES: [&str; 16] = [
    "authorization",
    "proxyauthorization",
    "cookie",
    "setcookie",
    "xapikey",
    "xauthtoken",
    "xamzsecuritytoken",
    "password",
    "passwd",
    "pwd",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "credential",
    "credentials",
];
/// Ends of names of members and headers that hold secrets, such as `refresh_token`.
const ENDS: [&str; 16] = [
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "privatekey",
    "authorization",
    "accesskey",
    "accountkey",
    "appkey",
    "applicationkey",
    "authkey",
    "functionskey",
    "jwt",
    "masterkey",
    "subscriptionkey",
];
/// Prefix of every callback token, which authorizes its holder to report an outcome.
const TOKEN: &str = "cb1.";
/// Length from which a secret is replaced everywhere. The text of a shorter one may occur elsewhere by chance, so it is
/// replaced only where it was found.
const TELLING: usize = 6;

type Rule = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;
type Finder = Arc<dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync>;

/// A known secret shorter than this is not looked for: its text occurs by chance.
const SHORTEST: usize = 4;

/// Finds secrets in recorded values.
///
/// By default it finds the strings and numbers below members and headers with the usual names of secrets
/// (`authorization`, `cookie`, `password`, `token`, `api_key`, `client_secret`, ..), query parameters of such names inside
/// any text, and bearer and callback tokens inside any text; also in JSON inside a string, as in the body of a request, and
/// in parts of JSON inside any text, as in an error that quotes an answer.
///
/// ```
/// use aether_core::recording::Masking;
/// let masking = Masking::standard().key("pin").rule(|path, value| path.ends_with("card") || value.starts_with("sk-"));
/// assert_eq!(masking.redact(r#"{"pin":1234,"card":"4111","note":"token=abc","n":2}"#), r#"{"pin":0,"card":"***","note":"token=***","n":2}"#);
/// ```
#[derive(Clone)]
pub struct Masking {
    usual: bool,
    names: BTreeSet<String>,
    rules: Vec<Rule>,
    finders: Vec<Finder>,
    known: BTreeSet<String>,
    off: bool,
}

impl Default for Masking {
    fn default() -> Self {
        Self::standard()
    }
}

impl fmt::Debug for Masking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masking")
            .field("names", &self.names)
            .field("rules", &self.rules.len())
            .field("finders", &self.finders.len())
            .field("known", &self.known.len())
            .field("off", &self.off)
            .finish()
    }
}

impl Masking {
    /// Finds values with the usual names of secrets, and bearer and callback tokens.
    pub fn standard() -> Self {
        Self { usual: true, ..Self::only() }
    }

    /// Finds what it is told to find, and nothing by itself.
    ///
    /// ```
    /// use aether_core::recording::Masking;
    /// let masking = Masking::only().text("hunter2").path("card.number").find(|text| {
    ///     text.match_indices("sk-").map(|(at, _)| at..text.len()).collect()
    /// });
    /// assert_eq!(masking.redact(r#"{"token":"t","said":"hunter2!","card":{"number":"4111"}}"#),
    ///     r#"{"token":"t","said":"***!","card":{"number":"***"}}"#);
    /// assert_eq!(masking.redact(r#"["key sk-123"]"#), r#"["key ***"]"#);
    /// ```
    pub fn only() -> Self {
        Self {
            usual: false,
            names: BTreeSet::new(),
            rules: Vec::new(),
            finders: Vec::new(),
            known: BTreeSet::new(),
            off: false,
        }
    }

    /// Finds nothing: recordings contain every secret.
    pub fn off() -> Self {
        Self { off: true, ..Self::standard() }
    }

    /// Also finds the values of members and headers of this name, in any case and with or without `-` and `_`.
    #[must_use]
    pub fn key(mut self, name: &str) -> Self {
        self.names.insert(plain(name));
        self.off = false;
        self
    }

    /// Also finds every string for which `is_secret` returns `true`. It gets the string's path (names of members joined by
    /// dots, items of an array as `[]`; in events the kind comes first) and the string.
    #[must_use]
    pub fn rule(mut self, is_secret: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(is_secret));
        self.off = false;
        self
    }

    /// Also finds this very text: a password, a key that the program has. It is found in strings and in names of members, also
    /// percent-encoded and with JSON's escapes, and as a number. Texts of less than four bytes are not looked for.
    #[must_use]
    pub fn text(mut self, secret: impl Into<String>) -> Self {
        let secret = secret.into();
        if secret.len() >= SHORTEST {
            self.known.insert(secret);
        }
        self.off = false;
        self
    }

    /// Also finds every string at this path: names of members joined by dots, items of an array as `[]`. A path also stands
    /// for those that end with it.
    #[must_use]
    pub fn path(self, path: impl Into<String>) -> Self {
        let path = path.into();
        self.rule(move |at, _| {
            at.strip_suffix(&*path).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        })
    }

    /// Also finds parts of strings: `find` gets a string and returns where secrets stand in it, as a regular expression's
    /// matches.
    #[must_use]
    pub fn find(mut self, find: impl Fn(&str) -> Vec<Range<usize>> + Send + Sync + 'static) -> Self {
        self.finders.push(Arc::new(find));
        self.off = false;
        self
    }

    /// A JSON text with its secrets replaced by [`MASK`], and numbers below the names of secrets by 0. Text that is not
    /// JSON is searched for bearer tokens, query parameters and members. Where secrets overlap, all of what they cover is replaced.
    /// What is nested more than 100 deep, counted through JSON in strings in JSON, is replaced whole. Redacting twice changes
    /// nothing more.
    pub fn redact(&self, json: &str) -> String {
        if self.off {
            return json.to_owned();
        }
        match serde_json::from_str::<serde::de::IgnoredAny>(json) {
            Ok(_) => rewrite(json, &mut Redact(self)).unwrap_or_else(|| json.to_owned()),
            Err(_) => self.redact_text(&Place::default(), json).unwrap_or_else(|| json.to_owned()),
        }
    }

    /// A text with its secrets replaced; `None` where there are none.
    fn redact_text(&self, place: &Place<'_>, text: &str) -> Option<String> {
        if self.rules.iter().any(|rule| rule(place.path, text)) {
            return (text != MASK).then(|| MASK.to_owned());
        }
        if let Some(inner) = nested(text) {
            return rewrite_inner(place, inner, &mut Redact(self));
        }
        self.replace_spans(text, |_| Some(MASK.to_owned()))
    }

    /// A text with the parts replaced that are secrets; `None` where nothing changes.
    fn replace_spans(&self, text: &str, stand_in: impl Fn(&str) -> Option<String>) -> Option<String> {
        let (mut new, mut done) = (String::new(), 0);
        for span in merged(self.spans(text)) {
            if let Some(stand_in) = stand_in(&text[span.clone()]) {
                new.push_str(&text[done..span.start]);
                new.push_str(&stand_in);
                done = span.end;
            }
        }
        new.push_str(&text[done..]);
        (new != text).then_some(new)
    }

    /// Whether nothing is masked.
    pub(crate) fn is_off(&self) -> bool {
        self.off
    }

    fn names_a_secret(&self, name: &str) -> bool {
        let name = plain(name);
        let is_usual = NAMES.contains(&&*name) || ENDS.iter().any(|end| name.ends_with(end));
        self.usual && is_usual || self.names.contains(&name)
    }

    fn is_below_a_secret(&self, place: &Place<'_>) -> bool {
        place.keys.iter().any(|key| self.names_a_secret(key))
    }

    /// Parts of a text that are secrets, in order; some may overlap.
    fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        let mut values = Values::of(text);
        for (at, _) in text.match_indices('=') {
            let before = &text[..at];
            let name = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
            if name.len() < at && self.names_a_secret(&before[name.len()..]) {
                spans.push(values.from(at + 1));
            }
        }
        spans.extend(members(text, |name| self.names_a_secret(name)));
        for known in &self.known {
            spans.extend(places(text, known));
        }
        for finder in &self.finders {
            spans.extend(finder(text).into_iter().filter(|span| text.get(span.clone()).is_some()));
        }
        let lower = if self.usual { text.to_ascii_lowercase() } else { String::new() };
        for scheme in ["bearer ", "basic "] {
            let mut values = Values::of(text);
            let values = lower.match_indices(scheme).map(|(at, _)| values.from(at + scheme.len()));
            // Words that happen to follow "basic" are short; credentials are not.
            spans.extend(values.filter(|value| value.len() >= 12));
        }
        let (usual, mut values) = (if self.usual { text } else { "" }, Values::of(text));
        let tokens = usual.match_indices(TOKEN).map(|(at, _)| values.from(at));
        spans.extend(tokens.filter(|token| CallbackToken::parse(&text[token.clone()]).is_some()));
        spans.retain(|span| !span.is_empty() && &text[span.clone()] != MASK);
        spans.sort_by_key(|span| span.start);
        spans
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// The JSON inside a string, if it holds some.
fn nested(text: &str) -> Option<&str> {
    let inner = text.trim();
    let looks = matches!(
        (inner.chars().next(), inner.chars().last()),
        (Some('{'), Some('}')) | (Some('['), Some(']'))
    );
    (looks && serde_json::from_str::<serde::de::IgnoredAny>(inner).is_ok()).then_some(inner)
}

/// The credential of a header's value, without its scheme.
fn credential(text: &str) -> &str {
    match text.split_once(' ') {
        Some((scheme, rest)) if ["bearer", "basic", "token"].contains(&&*scheme.to_ascii_lowercase()) => rest,
        _ => text,
    }
}

struct Redact<'a>(&'a Masking);

impl Rewrite for Redact<'_> {
    fn leaf(&mut self, place: &Place<'_>, leaf: Leaf<'_>) -> Option<String> {
        let below = self.0.is_below_a_secret(place);
        match leaf {
            Leaf::Text(MASK) => None,
            Leaf::Text(_) if below => Some(quoted(MASK)),
            Leaf::Text(text) => self.0.redact_text(place, text).map(|text| quoted(&text)),
            Leaf::Number(number) => (below || self.0.known.contains(number)).then(|| "0".to_owned()),
            Leaf::Opaque => Some(quoted(MASK)),
        }
    }

    fn key(&mut self, key: &str) -> Option<String> {
        self.0.replace_spans(key, |_| Some(MASK.to_owned()))
    }
}

/// Secrets that were found, each with its replacement.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    /// By the secret.
    found: BTreeMap<String, String>,
    /// Secrets that are replaced everywhere, longest first, with their replacements.
    telling: Vec<(String, String)>,
}

impl Secrets {
    /// Number of different secrets.
    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Looks for secrets in `json`; members of events that are not values are skipped.
    pub(crate) fn search(&mut self, masking: &Masking, json: &str, event: bool) {
        if !masking.off {
            rewrite(json, &mut Search { masking, secrets: self, event });
        }
    }

    fn add(&mut self, secret: &str) {
        if secret.is_empty() || secret == MASK || is_stand_in(secret) || self.found.contains_key(secret) {
            return;
        }
        let stand_in = stand_in(secret, self.found.len() + 1);
        self.found.insert(secret.to_owned(), stand_in);
    }

    /// Call when everything was searched.
    pub(crate) fn settle(&mut self) {
        // A few digits are part of timestamps and other numbers by chance.
        let enough = |secret: &str| if is_number(secret) { 2 * TELLING } else { TELLING };
        let telling = self.found.iter().filter(|(secret, _)| secret.chars().count() >= enough(secret));
        self.telling = telling.map(|(secret, stand_in)| (secret.clone(), stand_in.clone())).collect();
        self.telling.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
    }

    /// `json` without its secrets; `None` where it holds none.
    pub(crate) fn replace(&self, masking: &Masking, json: &str, event: bool) -> Option<String> {
        if masking.off {
            return None;
        }
        rewrite(json, &mut Replace { masking, secrets: self, event })
    }

    /// A text without the secrets that were found; `None` where it holds none.
    pub(crate) fn replace_text(&self, text: &str) -> Option<String> {
        let mut new = text.to_owned();
        for (secret, stand_in) in &self.telling {
            if new.contains(secret.as_str()) {
                new = new.replace(secret.as_str(), stand_in);
            }
            // As it is written in JSON inside a string.
            let quoted = quoted(secret);
            let escaped = &quoted[1..quoted.len() - 1];
            if escaped != secret && new.contains(escaped) {
                new = new.replace(escaped, stand_in);
            }
        }
        (new != text).then_some(new)
    }
}

/// A replacement of the same shape, so that it still decodes: a UUID for a UUID, as many digits for digits.
fn stand_in(secret: &str, number: usize) -> String {
    let is_uuid = secret.len() == 36 && uuid::Uuid::try_parse(secret).is_ok();
    if is_uuid {
        format!("00000000-0000-4000-8000-{number:012}")
    } else if secret.len() > 3 && is_number(secret) {
        format!("{number:0width$}", width = secret.len())
    } else {
        format!("masked-{number}")
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text is a replacement for a secret.
fn is_stand_in(text: &str) -> bool {
    let number = text.strip_prefix("masked-").or_else(|| text.strip_prefix("00000000-0000-4000-8000-"));
    number.is_some_and(|number| !number.is_empty() && is_number(number))
}

/// Members of an event that name things and hold no values.
const NAMING: [&str; 25] = [
    "command",
    "invocation",
    "key",
    "tool",
    "step",
    "class",
    "digest",
    "fingerprint",
    "workflow",
    "module",
    "seed",
    "site",
    "parent",
    "child",
    "next",
    "winner",
    "worker",
    "attempt",
    "outcome",
    "due",
    "until",
    "undoes",
    "name",
    "change",
    "position",
];

/// Whether a member of an event (one level below its kind) holds a value.
fn holds_a_value(event: bool, depth: usize, key: &str) -> bool {
    !event || depth != 1 || !NAMING.contains(&key)
}

struct Search<'a> {
    masking: &'a Masking,
    secrets: &'a mut Secrets,
    event: bool,
}

impl Rewrite for Search<'_> {
    fn leaf(&mut self, place: &Place<'_>, leaf: Leaf<'_>) -> Option<String> {
        let Leaf::Text(text) = leaf else { return None };
        if self.masking.is_below_a_secret(place) {
            self.secrets.add(credential(text));
        } else if self.masking.rules.iter().any(|rule| rule(place.path, text)) {
            self.secrets.add(text);
        } else if let Some(inner) = nested(text) {
            let within = &mut Search { masking: self.masking, secrets: self.secrets, event: false };
            rewrite_inner(place, inner, within);
        } else {
            // A part of a longer secret may stand alone elsewhere.
            let spans = telling(self.masking.spans(text));
            spans.into_iter().for_each(|span| self.secrets.add(&text[span]));
        }
        None
    }

    fn enters(&self, depth: usize, key: &str) -> bool {
        holds_a_value(self.event, depth, key)
    }
}

struct Replace<'a> {
    masking: &'a Masking,
    secrets: &'a Secrets,
    event: bool,
}

impl Rewrite for Replace<'_> {
    fn leaf(&mut self, place: &Place<'_>, leaf: Leaf<'_>) -> Option<String> {
        let below = self.masking.is_below_a_secret(place);
        let text = match leaf {
            Leaf::Text(text) => text,
            Leaf::Number(number) => {
                return (below || self.masking.known.contains(number)).then(|| "0".to_owned());
            }
            Leaf::Opaque => return Some(quoted(MASK)),
        };
        let own = credential(text);
        match self.secrets.found.get(own) {
            Some(stand_in) if below => Some(quoted(&text.replace(own, stand_in))),
            Some(stand_in) if own == text && text.chars().count() >= TELLING => Some(quoted(stand_in)),
            _ if self.masking.rules.iter().any(|rule| rule(place.path, text)) => {
                self.secrets.found.get(text).map(|stand_in| quoted(stand_in))
            }
            _ => {
                let inner = nested(text).and_then(|inner| {
                    let within = &mut Replace { masking: self.masking, secrets: self.secrets, event: false };
                    rewrite_inner(place, inner, within)
                });
                let known = |span: &str| self.secrets.found.get(span).cloned();
                let new = inner.or_else(|| self.masking.replace_spans(text, known));
                let new = self.secrets.replace_text(new.as_deref().unwrap_or(text)).or(new);
                new.map(|new| quoted(&new))
            }
        }
    }

    fn key(&mut self, key: &str) -> Option<String> {
        let long = self.secrets.telling.iter().filter(|(secret, _)| secret.len() >= 2 * TELLING);
        let mut new = key.to_owned();
        for (secret, stand_in) in long {
            new = new.replace(secret.as_str(), stand_in);
        }
        (new != key).then_some(new)
    }

    fn enters(&self, depth: usize, key: &str) -> bool {
        holds_a_value(self.event, depth, key)
    }
}

#[cfg(test)]
mod tests;
