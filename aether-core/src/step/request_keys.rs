//! The keys of the requests that one body sends.
//!
//! Promise: the first request of an attempt has the attempt's own key, also when this process calls the body again and
//! other requests come first; the key of every other one follows from what it asks for, and not from what else was sent
//! before it. Requests that ask for the same are told apart by their order. No two requests of one execution have the same
//! key.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::sched::Mutex;
use crate::vocabulary::id::IdempotencyKey;
use crate::vocabulary::payload::hex;

/// Hexadecimal digits of what a request asks for, in its key.
const DIGITS: usize = 16;

/// Which request has the attempt's own key: one for all executions of a step call in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstRequest(Arc<Mutex<Option<(IdempotencyKey, String)>>>);

impl FirstRequest {
    /// What the first request of the attempt with this key asks for: `asks`, if there was none before.
    fn of(&self, key: &IdempotencyKey, asks: &str) -> String {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*first {
            Some((of, first)) if of == key => first.clone(),
            _ => {
                *first = Some((key.clone(), asks.to_owned()));
                asks.to_owned()
            }
        }
    }
}

/// The requests of one execution of a body.
#[derive(Debug, Default)]
pub(crate) struct RequestKeys(Mutex<Sent>);

#[derive(Debug, Default)]
struct Sent {
    /// How many requests there were, by what they ask for.
    by_asked: BTreeMap<String, u32>,
    /// There was one beside the attempt's first request.
    several: bool,
}

/// The key of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestKey {
    pub(crate) text: String,
    /// It is the first one beside the attempt's first request.
    pub(crate) is_second: bool,
}

impl RequestKeys {
    /// The key for the next request of the attempt with `key`.
    pub(crate) fn next(&self, first: &FirstRequest, key: &IdempotencyKey, asks: &str) -> RequestKey {
        let digest = hex(&Sha256::digest(asks.as_bytes()));
        let asks = digest.get(..DIGITS).unwrap_or(&digest);
        let has_own_key = first.of(key, asks) == asks;
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let several = !has_own_key || sent.by_asked.contains_key(asks);
        let is_second = several && !sent.several;
        sent.several |= several;
        let before = sent.by_asked.entry(asks.to_owned()).or_default();
        let text = match *before {
            0 if has_own_key => key.to_string(),
            0 => format!("{key}:{asks}"),
            number => format!("{key}:{asks}:{number}"),
        };
        *before = before.saturating_add(1);
        RequestKey { text, is_second }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::id::{CommandId, RunId};

    fn key(attempt: u32) -> IdempotencyKey {
        IdempotencyKey::new(&RunId::new("r").unwrap(), &CommandId::new("0", "pay"), attempt)
    }

    /// The keys of requests in one execution.
    fn execution(first: &FirstRequest, attempt: u32, asked: &[&str]) -> Vec<String> {
        let keys = RequestKeys::default();
        asked.iter().map(|asks| keys.next(first, &key(attempt), asks).text).collect()
    }

    #[test]
    fn a_request_that_is_not_sent_again_leaves_the_keys_of_the_others_as_they_were() {
        let first = FirstRequest::default();
        let all = execution(&first, 0, &["POST /customer", "POST /charge", "POST /mail", "POST /mail"]);
        assert_eq!(all[0], key(0).to_string());
        assert_eq!(all[3], format!("{}:1", all[2]));
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        // The customer is there by now.
        assert_eq!(execution(&first, 0, &["POST /charge", "POST /mail"]), all[1..3]);
        // Another process knows what is first only by what comes first; the rest does not depend on that.
        let elsewhere =
            execution(&FirstRequest::default(), 0, &["POST /customer", "POST /mail", "POST /mail"]);
        assert_eq!(elsewhere, [all[0].clone(), all[2].clone(), all[3].clone()]);
    }

    #[test]
    fn an_attempt_begins_with_its_own_key() {
        let first = FirstRequest::default();
        assert_eq!(execution(&first, 0, &["POST /a"]), [key(0).to_string()]);
        assert_eq!(execution(&first, 0, &["POST /a"]), [key(0).to_string()]);
        assert_eq!(execution(&first, 1, &["POST /b"]), [key(1).to_string()]);
    }

    #[test]
    fn the_first_one_of_several_requests_is_told_once() {
        let (first, keys) = (FirstRequest::default(), RequestKeys::default());
        let second = ["a", "a", "b", "b"].map(|asks| keys.next(&first, &key(0), asks).is_second);
        assert_eq!(second, [false, true, false, false]);
        let again = RequestKeys::default();
        assert!(again.next(&first, &key(0), "b").is_second, "the one that has the attempt's key is not sent");
    }
}
