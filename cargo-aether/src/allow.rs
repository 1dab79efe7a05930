//! What a project lets pass: `[[check.allow]]` in `aether.toml`, each with a reason.
//!
//! Promise: an entry without a reason is an error, and one that lets nothing pass is told.

use std::path::{Path, PathBuf};

use crate::names::Name;

/// A function or a module, and a kind of source that it may reach.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allow {
    /// A function, or a module or crate with everything in it.
    pub(crate) path: String,
    /// A kind of source; all where it is left out.
    pub(crate) kind: Option<String>,
    /// Why, for those who read the file.
    reason: String,
}

/// The entries of a project.
#[derive(Debug, Default)]
pub(crate) struct Allows {
    file: PathBuf,
    entries: Vec<Allow>,
}

/// Which kinds one walk looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kinds {
    Only(String),
    AllBut(Vec<String>),
}

/// Why `aether.toml` is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AllowError {
    #[error("{file} cannot be read: {reason}")]
    Unreadable { file: String, reason: String },
    #[error("{file}: {reason}")]
    Malformed { file: String, reason: String },
    #[error("{file}: the entry for `{path}` has no reason: say why it is deterministic enough")]
    NoReason { file: String, path: String },
    #[error("{file}: `{kind}` is no kind of source: it is one of {known}")]
    UnknownKind { file: String, kind: String, known: String },
}

#[derive(Debug, serde::Deserialize)]
struct Document {
    #[serde(default)]
    check: Section,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    allow: Vec<Allow>,
}

impl Allow {
    /// Whether a function is one of those that may.
    pub(crate) fn covers(&self, name: &Name) -> bool {
        let rest = name.path.trim_start_matches('<').strip_prefix(&self.path);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    }

    /// The kinds that it lets pass.
    pub(crate) fn kinds(&self) -> Kinds {
        self.kind.clone().map_or_else(|| Kinds::AllBut(Vec::new()), Kinds::Only)
    }
}

impl Kinds {
    pub(crate) fn include(&self, kind: &str) -> bool {
        match self {
            Self::Only(only) => only == kind,
            Self::AllBut(others) => others.iter().all(|other| other != kind),
        }
    }
}

impl Allows {
    /// Reads `aether.toml` in `folder`, if there is one. `known` are the kinds that there are.
    pub(crate) fn read(folder: &Path, known: &[&str]) -> Result<Self, AllowError> {
        let path = folder.join("aether.toml");
        let file = path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(AllowError::Unreadable { file, reason: error.to_string() }),
        };
        let document: Document = toml::from_str(&text)
            .map_err(|error| AllowError::Malformed { file: file.clone(), reason: error.to_string() })?;
        for entry in &document.check.allow {
            if entry.reason.trim().is_empty() {
                return Err(AllowError::NoReason { file, path: entry.path.clone() });
            }
            if let Some(kind) = entry.kind.as_ref().filter(|kind| !known.contains(&kind.as_str())) {
                let known = known.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
                return Err(AllowError::UnknownKind { file, kind: kind.clone(), known });
            }
        }
        Ok(Self { file: path, entries: document.check.allow })
    }

    /// The walks that are needed: one for the kinds that nothing is said of, and one for each that something is.
    pub(crate) fn walks(&self) -> Vec<(Kinds, Vec<&Allow>)> {
        let mut kinds: Vec<_> = self.entries.iter().filter_map(|entry| entry.kind.clone()).collect();
        kinds.sort();
        kinds.dedup();
        let stops = |kind: Option<&str>| {
            self.entries
                .iter()
                .filter(|entry| entry.kind.is_none() || entry.kind.as_deref() == kind)
                .collect::<Vec<_>>()
        };
        let mut walks: Vec<_> =
            kinds.iter().map(|kind| (Kinds::Only(kind.clone()), stops(Some(kind)))).collect();
        walks.push((Kinds::AllBut(kinds), stops(None)));
        walks
    }

    /// What is said of each entry that lets nothing pass by `is_used`.
    pub(crate) fn stale(&self, is_used: impl Fn(&Allow) -> bool) -> Vec<String> {
        let told = |entry: &Allow| {
            let kind = entry.kind.as_ref().map(|kind| format!(" for `{kind}`")).unwrap_or_default();
            let (file, path) = (self.file.display(), &entry.path);
            format!("{file}: nothing that a workflow reaches is let pass at `{path}`{kind}: remove the entry")
        };
        self.entries.iter().filter(|entry| !is_used(entry)).map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn allows(text: &str) -> Result<Allows, AllowError> {
        let folder = std::env::temp_dir().join(format!("aether-allow-{:?}", std::thread::current().id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("aether.toml"), text).unwrap();
        Allows::read(&folder, &["clock", "hash"])
    }

    #[test]
    fn an_entry_covers_a_path_and_what_is_in_it() {
        let entry = "[[check.allow]]\npath = \"app::metrics\"\nkind = \"clock\"\nreason = \"only shown\"\n";
        let allows = allows(entry).unwrap();
        let walks = allows.walks();
        assert_eq!(walks[0].0, Kinds::Only("clock".into()));
        assert!(walks[1].0.include("hash") && !walks[1].0.include("clock") && walks[1].1.is_empty());
        let name = |path: &str| Name { path: path.into(), ..Name::default() };
        assert!(!walks[0].1[0].covers(&name("app::metrics_of")));
        assert!(walks[0].1[0].covers(&name("<app::metrics::Timer as core::ops::drop::Drop>::drop")));
        assert!(allows.stale(|_| true).is_empty());
        assert!(allows.stale(|_| false)[0].contains("let pass at `app::metrics` for `clock`"));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let says = |text: &str| allows(text).unwrap_err().to_string();
        assert!(
            says("[[check.allow]]\npath = \"a\"\nreason = \" \"\n")
                .contains("the entry for `a` has no reason")
        );
        assert!(says("[[check.allow]]\npath = \"a\"\n").contains("reason"));
        let unknown = says("[[check.allow]]\npath = \"a\"\nkind = \"clocks\"\nreason = \"r\"\n");
        assert!(unknown.contains("`clocks` is no kind of source: it is one of `clock`, `hash`"), "{unknown}");
        assert!(says("[[check.allow]\n").contains("aether.toml: "));
        assert!(says("[check]\nallowed = 1\n").contains("allowed"));
    }
}
