//! Tokens that work once, the sessions that they open, and the tokens in forms.
//!
//! Promise: only hashes are kept, so that no memory of this process holds what a cookie or an address holds. The id of a
//! session is made here and never taken from a request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

/// How long a session lives after it was used last.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions, and most tokens that nobody has used; the oldest goes.
const MOST: usize = 64;

type Hash = [u8; 32];

/// The sessions of one console.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Signs the tokens in forms; drawn when the console is made. Without it no form is taken.
    key: Option<Hash>,
    /// Name of the cookie with the session's id: another one for each console, because browsers keep cookies of one host
    /// together whatever its ports are.
    cookie: String,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    tokens: Vec<Hash>,
    sessions: HashMap<Hash, Instant>,
}

impl Tables {
    fn keep(&mut self, token: &str) {
        if self.tokens.len() >= MOST {
            self.tokens.remove(0);
        }
        self.tokens.push(hash(token));
    }
}

/// The system has no randomness to give.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes for a token: {0}")]
pub struct NoRandomness(getrandom::Error);

impl Sessions {
    pub(crate) fn new() -> Self {
        let name = draw().map(|name| hex(&name).chars().take(8).collect::<String>()).unwrap_or_default();
        Self { key: draw().ok(), cookie: format!("aether_session_{name}"), tables: Mutex::default() }
    }

    /// Eight digits that no other page has.
    pub(crate) fn mark(&self) -> Result<String, NoRandomness> {
        let mut digits = hex(&draw()?);
        digits.truncate(8);
        Ok(digits)
    }

    /// A token that opens one session.
    pub(crate) fn mint(&self) -> Result<String, NoRandomness> {
        let token = hex(&draw()?);
        self.tables().keep(&token);
        Ok(token)
    }

    /// A token for whoever has none; `None` where one is left that nobody has used.
    pub(crate) fn mint_if_none_is_left(&self) -> Result<Option<String>, NoRandomness> {
        let token = hex(&draw()?);
        let mut tables = self.tables();
        if !tables.tokens.is_empty() {
            return Ok(None);
        }
        tables.keep(&token);
        Ok(Some(token))
    }

    /// Takes a token back that nobody has used: it opens nothing any more.
    pub(crate) fn withdraw(&self, token: &str) {
        let token = hash(token);
        self.tables().tokens.retain(|known| *known != token);
    }

    /// Name of the cookie with the id of a session.
    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// The id of a new session for a token that was not used; `None` for any other text.
    pub(crate) fn exchange(&self, token: &str) -> Result<Option<String>, NoRandomness> {
        let id = hex(&draw()?);
        let mut tables = self.tables();
        let token = hash(token);
        let Some(at) = tables.tokens.iter().position(|known| *known == token) else { return Ok(None) };
        tables.tokens.remove(at);
        tables.sessions.retain(|_, used| used.elapsed() < IDLE);
        if tables.sessions.len() >= MOST
            && let Some(oldest) = tables.sessions.iter().min_by_key(|(_, used)| **used).map(|(id, _)| *id)
        {
            tables.sessions.remove(&oldest);
        }
        tables.sessions.insert(hash(&id), Instant::now());
        Ok(Some(id))
    }

    /// Whether a session of this id is open, without using it.
    pub(crate) fn is_still_open(&self, id: &str) -> bool {
        self.tables().sessions.get(&hash(id)).is_some_and(|used| used.elapsed() < IDLE)
    }

    /// Whether a session of this id is open. That is a use of it.
    pub(crate) fn is_open(&self, id: &str) -> bool {
        let mut tables = self.tables();
        match tables.sessions.get_mut(&hash(id)) {
            Some(used) if used.elapsed() < IDLE => {
                *used = Instant::now();
                true
            }
            _ => false,
        }
    }

    /// Closes a session.
    pub(crate) fn close(&self, id: &str) {
        self.tables().sessions.remove(&hash(id));
    }

    /// What the forms of this session, or of this user, carry; empty where none is taken.
    pub(crate) fn form_token(&self, subject: &str) -> String {
        let Some(key) = self.key else { return String::new() };
        let mut signed = Sha256::new();
        signed.update(key);
        signed.update(subject.as_bytes());
        signed.update(key);
        hex(&signed.finalize())
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two tokens are equal. Their hashes are compared, so that the time tells nothing of the tokens.
pub(crate) fn same(one: &str, other: &str) -> bool {
    hash(one) == hash(other)
}

fn draw() -> Result<Hash, NoRandomness> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(bytes)
}

fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _a_string_takes_all = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_one_session_and_the_oldest_of_many_goes() {
        let sessions = Sessions::new();
        let token = sessions.mint().unwrap();
        let id = sessions.exchange(&token).unwrap().unwrap();
        assert_eq!(sessions.exchange(&token).unwrap(), None, "a second time");
        assert!(sessions.is_open(&id) && !sessions.is_open(&token));
        sessions.close(&id);
        assert!(!sessions.is_open(&id));
        let next = sessions.mint_if_none_is_left().unwrap().unwrap();
        assert_eq!(sessions.mint_if_none_is_left().unwrap(), None, "one is left");
        assert!(sessions.exchange(&next).unwrap().is_some());
        let unheard = sessions.mint_if_none_is_left().unwrap().unwrap();
        sessions.withdraw(&unheard);
        assert_eq!(sessions.exchange(&unheard).unwrap(), None, "withdrawn");
        assert!(sessions.mint_if_none_is_left().unwrap().is_some());
        let first = sessions.mint().unwrap();
        for _ in 0..MOST {
            sessions.mint().unwrap();
        }
        assert_eq!(sessions.exchange(&first).unwrap(), None, "only so many are kept");
    }

    #[test]
    fn a_form_of_another_session_or_console_has_another_token() {
        let (one, other) = (Sessions::new(), Sessions::new());
        assert_eq!(one.form_token("a"), one.form_token("a"));
        assert_ne!(one.form_token("a"), one.form_token("b"));
        assert_ne!(one.form_token("a"), other.form_token("a"));
    }
}
