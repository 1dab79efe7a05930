//! Business keys: the identity of an irreversible call, and the refusal of a call whose key is taken.
//!
//! Promise: a refused call names the call that holds the key; only what the step takes as arguments distinguishes calls.
//! What a store gets is short enough for an index, and has no character that some store cannot keep.

use futures_util::FutureExt as _;

use crate::definition::def::KeyScope;
use crate::perform::call::StepCall;
use crate::store::ledger::{LedgerEntry, Reservation, STORE_WIDE};
use crate::store::reserve::{Holder, Reserved, holder, reserve};
use crate::vocabulary::failure::{KeyHolder, StepError};
use crate::vocabulary::outcome::Outcome;
use crate::vocabulary::payload::{Answered, Digest, Payload, PayloadError};

/// The longest key of a step that is kept as it is, in bytes: Postgres indexes texts of 2,700 bytes, with run and path.
const LONGEST: usize = 1_024;
/// What is left of the beginning of a longer one, in bytes.
const KEPT: usize = 256;
/// Stands between that and the digest of the whole.
const CUT: &str = "…sha256:";

/// What is kept in the place of a key that is too long or holds U+0000: its beginning and its digest. `None` for all others.
/// One that looks as if it were cut is cut, too, so that no two keys share a text.
fn cut(key: &str) -> Result<Option<String>, PayloadError> {
    if key.len() <= LONGEST && !key.contains('\0') && !key.contains(CUT) {
        return Ok(None);
    }
    let digest = Digest::of(&Payload::encode(&key)?)?;
    let start = key.get(..key.floor_char_boundary(KEPT)).unwrap_or_default().replace('\0', "\u{FFFD}");
    Ok(Some(format!("{start}{CUT}{}", digest.as_str())))
}

/// The key of a step within its run: `<run>/<path>:<key>`. All three may hold both separators, so that two calls could
/// share a text. Where it is not read as what it was made of, a text with the lengths of the parts takes its place; it
/// cannot begin another key, because a run id holds no tab.
fn key_in_run(run: &str, path: &str, key: &str) -> String {
    let text = format!("{run}/{path}:{key}");
    let rest = |at: usize| text.get(at + 1..).and_then(split_path);
    // The first slash that is followed by a path: the key, which may hold more of them, comes last.
    let found = text.match_indices('/').find_map(|(at, _)| Some((text.get(..at)?, rest(at)?)));
    match found {
        Some(found) if found == (run, (path, key)) => text,
        _ => format!("{},{}\t{text}", run.len(), path.len()),
    }
}

/// The key of a step within the store, likewise.
fn key_in_store(path: &str, key: &str) -> String {
    let text = format!("{path}:{key}");
    match split_path(&text) {
        Some(found) if found == (path, key) => format!("{STORE_WIDE}{text}"),
        _ => format!("{STORE_WIDE}{}\t{text}", path.len()),
    }
}

/// The key of the same call in `to`, where `key` is one within run `from`; `None` for one within the store.
pub(crate) fn key_in_fork(key: &str, from: &str, to: &str) -> Option<String> {
    if key.starts_with(STORE_WIDE) {
        return None;
    }
    let (path, key) = match key.split_once('\t') {
        // A slash before the tab: it is one of the key's own.
        Some((lengths, text)) if !lengths.contains('/') => {
            let path_length = lengths.split_once(',')?.1.parse::<usize>().ok()?;
            let rest = text.strip_prefix(from)?.strip_prefix('/')?;
            (rest.get(..path_length)?, rest.get(path_length..)?.strip_prefix(':')?)
        }
        _ => split_path(key.strip_prefix(from)?.strip_prefix('/')?)?,
    };
    Some(key_in_run(to, path, key))
}

/// Splits a text behind the path of a Rust function that it begins with, such as `shop::pay`, and its colon.
fn split_path(text: &str) -> Option<(&str, &str)> {
    let mut end = 0;
    loop {
        let rest = text.get(end..)?;
        let mut letters = rest.char_indices();
        let (_, first) = letters.next()?;
        if !(first.is_alphabetic() || first == '_') {
            return None;
        }
        let (at, _) = letters.find(|(_, letter)| !(letter.is_alphanumeric() || *letter == '_'))?;
        let (rest, path) = (rest.get(at..)?, text.get(..end + at)?);
        match rest.strip_prefix("::") {
            // A key may begin with a colon; what is no name behind two of them belongs to it.
            Some(more) if more.starts_with(|c: char| c.is_alphabetic() || c == '_') => end += at + 2,
            _ => return rest.strip_prefix(':').map(|key| (path, key)),
        }
    }
}

impl StepCall {
    /// Irreversible steps hold a business key: their own, or tool and argument digest; within the run or the store.
    pub(crate) fn business_key(&self) -> Result<Option<String>, PayloadError> {
        if !self.options.irreversible {
            return Ok(None);
        }
        let key = match self.ask_body(|body| body.business_key(&self.args))? {
            Some(key) => cut(&key)?.unwrap_or(key),
            // Only of the arguments that the step takes: a model must not get a new key by inventing an argument.
            None => Digest::of(&self.ask_body(|body| body.canonical_args(&self.args))?)?.as_str().to_owned(),
        };
        Ok(Some(self.key_of(&key)))
    }

    fn key_of(&self, key: &str) -> String {
        match self.options.scope {
            KeyScope::Run => key_in_run(self.run.id.as_str(), &self.path, key),
            KeyScope::Store => key_in_store(&self.path, key),
        }
    }

    /// The keys that former builds made of these arguments, where they made others: they cut none, read wide integers in
    /// another way, and had only the digest where a body makes a key for a step that declares none.
    fn former_keys(&self) -> Result<Vec<String>, PayloadError> {
        let own = self.ask_body(|body| body.business_key(&self.args))?;
        let mut former = Vec::new();
        if let Some(key) = &own
            && cut(key)?.is_some()
        {
            former.push(key.clone());
        }
        if own.is_none() || !self.options.keyed {
            let args = self.ask_body(|body| body.canonical_args(&self.args))?;
            let digest = own.map(|_| Digest::of(&args)).transpose()?;
            former.extend(digest.into_iter().chain(Digest::former(&args)).map(|key| key.as_str().to_owned()));
        }
        Ok(former)
    }

    /// The call that holds a key which a former build made of these arguments, where another call holds one.
    async fn holder_of_former_key(&self) -> Option<Holder> {
        let (_in_flight, run) = (self.run.in_flight(), &self.run);
        for former in self.former_keys().ok()? {
            let key = self.key_of(&former);
            let found = run.insist(|| holder(&*run.shared.store, &run.id, &key).boxed()).await;
            let is_own = |found: &Holder| found.run == run.id && found.command() == self.command;
            if let Some(found) = found.filter(|found| !is_own(found)) {
                return Some(found);
            }
        }
        None
    }

    /// Reserves the business key of a row that is about to be acquired, where it is one within the store; the call that
    /// holds it, or the key that a former build would have made, where it is taken.
    pub(crate) async fn reserve_key(&self, row: LedgerEntry) -> (LedgerEntry, Option<Holder>) {
        let holder = match self.holder_of_former_key().await {
            None => self.holder_of_key(&row).await,
            former => former,
        };
        (row, holder)
    }

    async fn holder_of_key(&self, row: &LedgerEntry) -> Option<Holder> {
        let wanted = Reservation::of_row(row)?;
        let (_in_flight, run) = (self.run.in_flight(), &self.run);
        let ask = || reserve(&*run.shared.store, &wanted).boxed();
        let Reserved::Taken(mut holder) = run.insist(ask).await else { return None };
        // A call of this run itself may have failed a moment ago: the store knows that when it is durable.
        if holder.run == run.id {
            run.durable_so_far().await;
            match run.insist(ask).await {
                Reserved::Granted => return None,
                Reserved::Taken(found) => holder = found,
            }
        }
        Some(*holder)
    }

    /// Completes a refusal that a crash interrupted. The journal does not name the holder, so it is looked up again.
    pub(crate) async fn refused_before(&mut self) -> Answered {
        let holder = match self.business_key() {
            Ok(Some(key)) => {
                let (_in_flight, run) = (self.run.in_flight(), &self.run);
                run.insist(|| holder(&*run.shared.store, &run.id, &key).boxed()).await
            }
            Ok(None) | Err(_) => None,
        };
        let holder = match holder {
            None if self.options.irreversible => self.holder_of_former_key().await,
            holder => holder,
        };
        self.refuse(holder).await
    }

    /// Refuses the call for good, because its business key belongs to another call.
    pub(crate) async fn refuse(&mut self, holder: Option<Holder>) -> Answered {
        self.spent_nothing();
        let holder = holder.map(|holder| {
            let (command, in_doubt) = (holder.command(), !holder.is_committed());
            KeyHolder { step: self.name.to_string(), run: holder.run, command, in_doubt }
        });
        let error = match holder {
            Some(holder) => StepError::Taken(holder),
            None => {
                let reason = format!(
                    "irreversible step `{}` was called before with the same business key; that call has failed since",
                    self.name
                );
                StepError::Rejected(self.run.failure(&self.command, reason))
            }
        };
        self.commit_failure(Outcome::PermanentFailure, &error, None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_unambiguous_is_what_it_always_was() {
        for run in ["ticket-42", "order:42", "parent/3:chapter", "a/b/c"] {
            for key in ["invoice-7", "", "a/b:c", "x::y", "https://shop/7"] {
                assert_eq!(key_in_run(run, "shop::pay", key), format!("{run}/shop::pay:{key}"));
                assert_eq!(key_in_store("shop::pay", key), format!("store\tshop::pay:{key}"));
            }
        }
        assert_eq!(key_in_run("a", "p::s", "x/p::s:k"), "a/p::s:x/p::s:k");
        assert_eq!(key_in_run("a/p::s:x", "p::s", "k"), "8,4\ta/p::s:x/p::s:k");
        assert_eq!(key_in_store("p::s", ":t:k"), "store\t4\tp::s::t:k");
    }

    #[test]
    fn a_key_that_a_store_may_not_be_able_to_keep_is_cut_and_stays_its_own() {
        let long = "x".repeat(LONGEST);
        assert_eq!(cut(&long).unwrap(), None);
        let umlauts = "ä".repeat(10_000);
        let of_cut = cut(&umlauts).unwrap().unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for key in [
            format!("{long}x"),
            format!("{long}y"),
            umlauts.clone(),
            format!("{umlauts}\0"),
            "a\0b".to_owned(),
            "a\u{FFFD}b\0".to_owned(),
            of_cut.clone(),
        ] {
            let kept = cut(&key).unwrap().unwrap();
            assert!(kept.len() <= KEPT + 100 && !kept.contains('\0'), "{kept}");
            assert!(seen.insert(kept), "{key:?}");
        }
        assert!(of_cut.starts_with("ää"), "{of_cut}");
        let longest = key_in_run(&"r".repeat(200), "shop::orders::pay", &long);
        assert!(longest.len() + 200 < 2_000);
        assert_eq!(
            key_in_fork(&key_in_run("a", "p::s", &of_cut), "a", "b"),
            Some(key_in_run("b", "p::s", &of_cut))
        );
    }

    #[test]
    fn a_key_moves_to_a_fork() {
        for (run, path, key) in [("a", "p::s", "x/p::s:k"), ("a/p::s:x", "p::s", "k"), ("a", "p", "::x")] {
            let moved = key_in_fork(&key_in_run(run, path, key), run, "fork");
            assert_eq!(moved, Some(key_in_run("fork", path, key)), "{run} {path} {key}");
        }
        assert_eq!(key_in_fork(&key_in_store("p::s", "k"), "a", "fork"), None);
    }

    proptest::proptest! {
        #[test]
        fn different_calls_have_different_keys(
            parts in proptest::collection::vec(
                ("[as/:0,4]{1,6}", "[as]{1,2}(::[as]{1,2}){0,2}", "[as/:0,\t4]{0,6}"), 60),
        ) {
            let mut seen = crate::sched::HashMap::new();
            for (run, path, key) in parts {
                for (text, run) in [(key_in_run(&run, &path, &key), Some(run)), (key_in_store(&path, &key), None)] {
                    let tuple = (run, path.clone(), key.clone());
                    let first = seen.entry(text.clone()).or_insert_with(|| tuple.clone());
                    proptest::prop_assert_eq!(first, &tuple, "{}", text);
                }
            }
        }
    }
}
