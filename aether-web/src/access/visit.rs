//! One request: who makes it, and how the pages that answer it are addressed.

use std::sync::Arc;

use axum::http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::permissions::{Actions, User};

/// What stays as it is in a part of a path.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// Which colours a page has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Those that the system prefers.
    #[default]
    Auto,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Dark];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.as_str() == name)
    }
}

/// One request that was let in.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) user: User,
    /// Where the console is mounted: empty, or a path without an end slash.
    pub(crate) base: String,
    /// What forms of this page carry.
    pub(crate) form_token: String,
    pub(crate) theme: Theme,
    /// What the console and the user both allow.
    pub(crate) allowed: Actions,
    /// The id of the session, where there is one.
    pub(crate) session: Option<String>,
    /// The request, where the program says who makes it and a page stays open: it is asked again.
    pub(crate) asked: Option<Arc<Parts>>,
}

impl Visit {
    pub(crate) fn may(&self, actions: Actions) -> bool {
        self.allowed.contains(actions) && self.user.may(actions)
    }

    pub(crate) fn audits(&self) -> bool {
        self.user.audits()
    }
}

/// An address inside of a console that is mounted at `base`. Its first page is `base` itself: where a router is nested, that
/// path is matched and the same with an end slash is not.
pub(crate) fn place(base: &str, inside: &str) -> String {
    match inside.strip_prefix('/') {
        Some(rest) if !base.is_empty() && (rest.is_empty() || rest.starts_with('?')) => {
            format!("{base}{rest}")
        }
        _ => format!("{base}{inside}"),
    }
}

/// The address of the first page.
pub(crate) fn home(base: &str) -> String {
    place(base, "/")
}

/// A text as one part of a path, or as a value of a query.
pub(crate) fn part(text: &str) -> String {
    utf8_percent_encode(text, PART).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_of_a_nested_console_has_no_end_slash() {
        assert_eq!([home(""), home("/agents")], ["/", "/agents"]);
        assert_eq!(place("/agents", "/?why=parked"), "/agents?why=parked");
        assert_eq!(place("", "/?why=parked"), "/?why=parked");
        assert_eq!(place("/agents", "/inbox"), "/agents/inbox");
    }
}
