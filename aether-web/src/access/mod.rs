//! Who is let in: hosts, sessions, tokens, and what is checked of every request.
//!
//! Promise: a request of another site's page, or under a name that is not the console's, reaches no page. A form is
//! taken only with the token of the session that was shown it. A token opens one session.

pub(crate) mod form;
pub(crate) mod guard;
pub(crate) mod headers;
pub(crate) mod refusal;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod visit;
