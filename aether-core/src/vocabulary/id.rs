//! Ids of runs, commands, invocations, workers and code, idempotency keys, and positions.
//!
//! Promise: two different things never share an id, and an id computed on replay equals the id computed on the first
//! run. Nothing here reads a clock or draws randomness.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::vocabulary::shared_text::shared_text;

/// Longest run id accepted, in bytes.
pub const MAX_RUN_ID: usize = 200;

/// Why a text is not a run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunIdError {
    /// The id is the empty string.
    #[error("a run id must not be empty: give the run a name such as `ticket-42`")]
    Empty,
    /// The id is longer than [`MAX_RUN_ID`] bytes.
    #[error("run id of {length} bytes is over the limit of {MAX_RUN_ID}: {start:?}…")]
    TooLong {
        /// Length of the refused id in bytes.
        length: usize,
        /// Its first characters.
        start: String,
    },
    /// The id holds a control character.
    #[error("run id {id:?} holds a control character at byte {at}: use printable text")]
    Control {
        /// The refused id.
        id: String,
        /// Byte offset of the character.
        at: usize,
    },
}

/// Id of one execution of a workflow: the name its caller gave it, or else a UUIDv7.
///
/// Starting the same workflow with the same input under the same id again returns the same run, so an id from the
/// caller's own domain makes a start idempotent.
///
/// ```
/// use aether_core::id::RunId;
/// let id: RunId = "ticket-42".parse()?;
/// assert_eq!(id.as_str(), "ticket-42");
/// assert!("".parse::<RunId>().is_err());
/// # Ok::<(), aether_core::id::RunIdError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RunId(Arc<str>);

impl RunId {
    /// Checks `name` and makes it a run id.
    ///
    /// # Errors
    /// [`RunIdError`] when the name is empty, too long, or holds a control character.
    pub fn new(name: impl Into<String>) -> Result<Self, RunIdError> {
        let name = name.into();
        if name.is_empty() {
            return Err(RunIdError::Empty);
        }
        if name.len() > MAX_RUN_ID {
            return Err(RunIdError::TooLong { length: name.len(), start: name.chars().take(32).collect() });
        }
        if let Some((at, _)) = name.char_indices().find(|(_, c)| c.is_control()) {
            return Err(RunIdError::Control { at, id: name });
        }
        Ok(Self(name.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<uuid::Uuid> for RunId {
    fn from(id: uuid::Uuid) -> Self {
        Self(id.to_string().into())
    }
}

impl std::str::FromStr for RunId {
    type Err = RunIdError;
    fn from_str(s: &str) -> Result<Self, RunIdError> {
        Self::new(s)
    }
}

impl TryFrom<String> for RunId {
    type Error = RunIdError;
    fn try_from(s: String) -> Result<Self, RunIdError> {
        Self::new(s)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0.to_string()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({})", self.0)
    }
}

/// Id of one command inside a run: its place in the scope tree, and the name of what it requests.
///
/// Written `3.b0.1:search`: third command of the root scope, first branch, second command of that branch. The
/// place alone identifies the command; the name is checked against history on replay.
///
/// ```
/// use aether_core::id::CommandId;
/// let id = CommandId::new("3.b0.1", "search");
/// assert_eq!((id.as_str(), id.place(), id.name()), ("3.b0.1:search", "3.b0.1", "search"));
/// assert!(id.is_within("3.b0"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandId(#[serde(deserialize_with = "shared_text")] Arc<str>);

impl CommandId {
    /// Joins a place such as `3.b0.1` and a name such as `search`.
    pub fn new(place: &str, name: &str) -> Self {
        Self(joined(|text| text.extend([place, ":", name])))
    }

    /// An id of which the text is known to be one.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The id of the command with this number in the scope at `path`, which is empty for the root.
    pub(crate) fn numbered(path: &str, ordinal: u32, name: &str) -> Self {
        Self(joined(|text| {
            if !path.is_empty() {
                text.extend([path, "."]);
            }
            push_number(text, ordinal);
            text.extend([":", name]);
        }))
    }

    /// The whole id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The place in the scope tree, before the colon.
    pub fn place(&self) -> &str {
        self.0.split_once(':').map_or(&*self.0, |(place, _)| place)
    }

    /// The name, after the colon.
    pub fn name(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, name)| name)
    }

    /// Whether this command was issued in `scope` (a scope's path) or in a scope below it.
    pub fn is_within(&self, scope: &str) -> bool {
        is_within(&self.0, scope)
    }
}

/// Whether a command of this place was issued in `scope` or in a scope below it.
pub(crate) fn is_within(place: &str, scope: &str) -> bool {
    place.strip_prefix(scope).is_some_and(|rest| rest.starts_with('.'))
}

/// Why a text is not a command id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a command id: expected a place, a colon and a name, such as `3.b0.1:search`")]
pub struct CommandIdError {
    text: String,
}

impl std::str::FromStr for CommandId {
    type Err = CommandIdError;

    /// Reads what [`CommandId::as_str`] gives. The place is numbers and scopes, joined by dots.
    ///
    /// ```
    /// use aether_core::id::CommandId;
    /// let id: CommandId = "3.b0.1:search".parse()?;
    /// assert_eq!((id.place(), id.name()), ("3.b0.1", "search"));
    /// let error = "search".parse::<CommandId>().unwrap_err();
    /// assert!(error.to_string().contains("such as `3.b0.1:search`"));
    /// # Ok::<(), aether_core::id::CommandIdError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, CommandIdError> {
        let part =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match text.split_once(':') {
            Some((place, name)) if place.split('.').all(part) && !name.is_empty() => Ok(Self(text.into())),
            _ => Err(CommandIdError { text: text.chars().take(64).collect() }),
        }
    }
}

impl From<String> for CommandId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandId({})", self.0)
    }
}

/// The stable key of one logical attempt at a world-changing step, by which a receiver recognizes repeats.
///
/// Always `aether:<run>:<command>:<attempt>`. The attempt rises only after a definite failure, never because another
/// worker resumed the run. Read from the right, the parts are unambiguous, because a place holds no colon: a run id may
/// hold any, and those in the command's name are escaped (`%3A`).
///
/// ```
/// use aether_core::id::{CommandId, IdempotencyKey, RunId};
/// let (run, command) = ("ticket-42".parse::<RunId>()?, CommandId::new("0", "send"));
/// assert_eq!(IdempotencyKey::new(&run, &command, 0).as_str(), "aether:ticket-42:0:send:0");
/// # Ok::<(), aether_core::id::RunIdError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(#[serde(deserialize_with = "shared_text")] Arc<str>);

impl IdempotencyKey {
    /// The key of `attempt` (from 0) at `command` in `run`.
    pub fn new(run: &RunId, command: &CommandId, attempt: u32) -> Self {
        let name = escaped(command.name());
        Self(joined(|text| {
            text.extend(["aether:", run.as_str(), ":"]);
            if name == command.name() {
                text.push_str(command.as_str());
            } else {
                text.extend([command.place(), ":", &name]);
            }
            text.push(':');
            push_number(text, attempt);
        }))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The command and the attempt that it names; `None` for a text that is no key of an attempt.
    ///
    /// ```
    /// use aether_core::id::{CommandId, IdempotencyKey, RunId};
    /// let (run, command) = ("a:b".parse::<RunId>()?, CommandId::new("3.b0.1", "send: all"));
    /// assert_eq!(IdempotencyKey::new(&run, &command, 2).attempt(), Some((command, 2)));
    /// assert_eq!(IdempotencyKey::from("other".to_owned()).attempt(), None);
    /// # Ok::<(), aether_core::id::RunIdError>(())
    /// ```
    pub fn attempt(&self) -> Option<(CommandId, u32)> {
        let mut parts = self.0.rsplitn(4, ':');
        let (attempt, name, place) = (parts.next()?, parts.next()?, parts.next()?);
        let _run = parts.next()?;
        let name = if name.contains("%3A") || name.contains("%25") {
            name.replace("%3A", ":").replace("%25", "%")
        } else {
            name.to_owned()
        };
        Some((CommandId::new(place, &name), attempt.parse().ok()?))
    }
}

/// A shared text. It is written into memory that a thread keeps: every step makes several, and each is then one
/// allocation and not two.
fn joined(write: impl FnOnce(&mut String)) -> Arc<str> {
    thread_local! {
        static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
    }
    TEXT.with_borrow_mut(|text| {
        text.clear();
        write(text);
        text.as_str().into()
    })
}

fn push_number(text: &mut String, number: u32) {
    // Writing to a string does not fail.
    let _written = write!(text, "{number}");
}

/// A command's name without colons. A name without any stays as it is, unless it looks like an escaped one.
fn escaped(name: &str) -> std::borrow::Cow<'_, str> {
    if name.contains(':') || name.contains("%3A") || name.contains("%25") {
        return name.replace('%', "%25").replace(':', "%3A").into();
    }
    name.into()
}

impl From<String> for IdempotencyKey {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({})", self.0)
    }
}

/// Id of one tool invocation inside its run: `<command>#<attempt>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InvocationId(#[serde(deserialize_with = "shared_text")] Arc<str>);

impl InvocationId {
    /// The invocation of `attempt` at `command`.
    pub fn new(command: &CommandId, attempt: u32) -> Self {
        Self(joined(|text| {
            text.extend([command.as_str(), "#"]);
            push_number(text, attempt);
        }))
    }

    /// The command that was attempted.
    pub fn command(&self) -> CommandId {
        let command = self.0.rsplit_once('#').map_or(&*self.0, |(command, _)| command);
        CommandId::from(command.to_owned())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for InvocationId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Id of a worker: an engine that advances runs. Each start of an engine has a new one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(#[serde(deserialize_with = "shared_text")] Arc<str>);

impl From<String> for WorkerId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl WorkerId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which code records a run: module, name, version and fingerprint of its workflow's definition, as one text.
///
/// Two builds whose ids are equal replay a run in the same way. The empty id says that it is not known: rows that an older
/// build wrote.
///
/// ```
/// use aether_core::id::CodeId;
/// let code = CodeId::of("shop", "triage", 1, "0011223344556677");
/// assert_eq!(code.as_str(), "shop::triage@1#0011223344556677");
/// assert!(!code.is_unknown() && CodeId::default().is_unknown());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CodeId(#[serde(deserialize_with = "shared_text")] Arc<str>);

impl CodeId {
    /// The code of a workflow's definition.
    pub fn of(module: &str, name: &str, version: u32, fingerprint: &str) -> Self {
        Self(format!("{module}::{name}@{version}#{fingerprint}").into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is not known which code it was.
    pub fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for CodeId {
    fn default() -> Self {
        Self("".into())
    }
}

impl From<String> for CodeId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for CodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Rises by one at every claim of a run; a store refuses appends that carry an older one.
pub type Epoch = u64;

/// Number of an event in its run's journal, from 0.
pub type Position = u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_knows_its_scope() {
        let id = CommandId::new("3.b0.1", "search");
        assert_eq!((id.as_str(), id.place(), id.name()), ("3.b0.1:search", "3.b0.1", "search"));
        assert!(id.is_within("3.b0"));
        assert!(id.is_within("3"));
        assert!(!id.is_within("3.b"));
        assert!(!id.is_within("3.b0.1"));
    }

    fn key(run: &str, place: &str, name: &str, attempt: u32) -> String {
        let run = RunId::new(run).unwrap();
        IdempotencyKey::new(&run, &CommandId::new(place, name), attempt).as_str().to_owned()
    }

    #[test]
    fn a_key_that_was_unambiguous_is_what_it_always_was() {
        assert_eq!(key("order:42", "3.b0.1", "send", 7), "aether:order:42:3.b0.1:send:7");
        assert_eq!(key("a/3:chapter", "0", "100%", 0), "aether:a/3:chapter:0:100%:0");
        assert_eq!(key("a", "0", "1:send", 0), "aether:a:0:1%3Asend:0");
        assert_eq!(key("a:0", "1", "send", 0), "aether:a:0:1:send:0");
    }

    proptest::proptest! {
        #[test]
        fn different_attempts_have_different_keys(
            parts in proptest::collection::vec(("[a01:%/.]{1,5}", "[01]{1,2}(\\.b?[01]){0,2}", "[a01:%23A5]{0,5}", 0..12_u32), 40),
        ) {
            let mut seen = crate::sched::HashMap::new();
            for (run, place, name, attempt) in parts {
                let key = key(&run, &place, &name, attempt);
                let tuple = (run, place, name, attempt);
                let first = seen.entry(key.clone()).or_insert_with(|| tuple.clone());
                proptest::prop_assert_eq!(first, &tuple, "{}", key);
            }
        }
    }

    #[test]
    fn a_bad_run_id_says_what_is_wrong() {
        assert_eq!(RunId::new(""), Err(RunIdError::Empty));
        assert!(matches!(RunId::new("x".repeat(201)), Err(RunIdError::TooLong { length: 201, .. })));
        assert!(matches!(RunId::new("a\nb"), Err(RunIdError::Control { at: 1, .. })));
    }
}
