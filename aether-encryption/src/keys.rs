//! The ring of keys: the one that encrypts, older ones that still decrypt, and those of data subjects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aether_core::codec::PayloadPlace;

use crate::key::SecretKey;

/// Which subject's key a value gets; `None` for the ring's own.
pub(crate) type Choose = dyn Fn(&PayloadPlace<'_>) -> Option<String> + Send + Sync;

/// The keys of a program.
///
/// - The *current* key encrypts. Its id stands beside each value.
/// - *Old* keys decrypt what was encrypted while they were current. To rotate, make a new current key and keep the former
///   one among the old ones for as long as a run, or a schedule, has values of it.
/// - The *names* key makes keyed digests of business keys and of names of large values, by which a store finds them. It
///   decrypts nothing and must stay the same for the life of the store: with another one, an irreversible step would not
///   find that it was made before.
/// - *Subject* keys, with [`Keys::key_for`], belong to one person or customer. Destroying one erases what was recorded of
///   that subject, also in backups.
///
/// ```
/// use aether_encryption::{Encryption, Keys, SecretKey};
/// # fn secret(_: &str) -> Result<SecretKey, aether_encryption::KeyError> { SecretKey::generate() }
///
/// let keys = Keys::new("2027", secret("AETHER_KEY_2027")?, secret("AETHER_NAMES_KEY")?)
///     .and_old("2026", secret("AETHER_KEY_2026")?);
/// let codec = Encryption::new(keys);
/// # Ok::<(), aether_encryption::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Keys {
    pub(crate) current: String,
    pub(crate) ring: BTreeMap<String, SecretKey>,
    pub(crate) destroyed: BTreeSet<String>,
    pub(crate) names: SecretKey,
    pub(crate) subjects: Option<(Arc<dyn SubjectKeys>, Arc<Choose>)>,
}

/// What is known of the key of a data subject.
#[derive(Clone, Debug)]
pub enum SubjectKey {
    /// This is it.
    Known(SecretKey),
    /// It was destroyed on purpose: its subject is erased.
    Destroyed,
    /// There is none here; perhaps elsewhere.
    Unknown,
}

/// Where keys of data subjects are kept: [`SubjectKeyFolder`](crate::SubjectKeyFolder), a table, a key server.
///
/// It is asked for every value of a subject, so it should answer from memory or a local file. An answer may be remembered
/// only for as long as a destroyed key may still be used.
pub trait SubjectKeys: Send + Sync + 'static {
    /// The key of `subject`.
    ///
    /// # Errors
    /// A text that says why nobody knows at the moment.
    fn find(&self, subject: &str) -> Result<SubjectKey, String>;

    /// The key of `subject`, made if there never was one. A new key must be durable, and be the same for all processes,
    /// before it is returned.
    ///
    /// # Errors
    /// A text that says why there is none.
    fn find_or_make(&self, subject: &str) -> Result<SubjectKey, String>;
}

/// How the id of a subject's key begins.
pub(crate) const SUBJECT: &str = "subject:";

impl Keys {
    /// A ring with one key. `id` names it and is kept in the open; `names` is the key of digests, which is never rotated.
    pub fn new(id: impl Into<String>, current: SecretKey, names: SecretKey) -> Self {
        let id = id.into();
        let ring = BTreeMap::from([(id.clone(), current)]);
        Self { current: id, ring, destroyed: BTreeSet::new(), names, subjects: None }
    }

    /// Adds a key that only decrypts. One with the id of the current key is ignored.
    #[must_use]
    pub fn and_old(mut self, id: impl Into<String>, key: SecretKey) -> Self {
        self.ring.entry(id.into()).or_insert(key);
        self
    }

    /// Says that a key was destroyed on purpose, so that what it encrypted counts as erased and not as unreadable for now.
    #[must_use]
    pub fn and_destroyed(mut self, id: impl Into<String>) -> Self {
        self.destroyed.insert(id.into());
        self
    }

    /// Encrypts the values of a data subject with a key of their own. `choose` names the subject of a value, mostly by a
    /// label of its run; `None` leaves it to the current key. Labels never change, so neither should the answer.
    ///
    /// ```
    /// # use aether_encryption::{Keys, SecretKey, SubjectKeyFolder};
    /// # fn with(keys: Keys, wrapping: SecretKey) -> Result<(), Box<dyn std::error::Error>> {
    /// let folder = SubjectKeyFolder::open("subject-keys", wrapping)?;
    /// let keys = keys.key_for(folder.clone(), |place| {
    ///     place.labels?.get("customer").map(str::to_owned)
    /// });
    /// // Later, to erase one customer:
    /// folder.destroy("c-4711")?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn key_for(
        mut self,
        keys: impl SubjectKeys,
        choose: impl Fn(&PayloadPlace<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.subjects = Some((Arc::new(keys), Arc::new(choose)));
        self
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("current", &self.current)
            .field("ids", &self.ring.keys().collect::<Vec<_>>())
            .field("destroyed", &self.destroyed)
            .field("has_subjects", &self.subjects.is_some())
            .finish_non_exhaustive()
    }
}
