//! The sources of a program, and whether they have changed.
//!
//! Promise: a change is told once, when it has settled: an editor that writes a file in several steps is not overtaken.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files and what they were like.
type Seen = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Rust sources and manifests below a folder.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    folder: PathBuf,
    known: Seen,
    /// What the last look found, where that differs from what is known.
    changing: Option<Seen>,
}

impl Watched {
    pub(crate) fn below(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), known: seen(folder), changing: None }
    }

    /// Looks, and names a file that has changed since the last change that was told, if two looks in a row have found the
    /// same.
    pub(crate) fn look(&mut self) -> Option<PathBuf> {
        let now = seen(&self.folder);
        if now == self.known {
            self.changing = None;
            return None;
        }
        if self.changing.as_ref() != Some(&now) {
            self.changing = Some(now);
            return None;
        }
        self.changing = None;
        let former = std::mem::replace(&mut self.known, now);
        let differs = |(path, is): (&PathBuf, _)| (former.get(path) != Some(is)).then(|| path.clone());
        let gone = || former.keys().find(|path| !self.known.contains_key(*path)).cloned();
        self.known.iter().find_map(differs).or_else(gone)
    }
}

fn seen(folder: &Path) -> Seen {
    let (mut seen, mut folders) = (Seen::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        // What cannot be read cannot be built either: the build says so.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let is_hidden = name.to_string_lossy().starts_with('.');
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_hidden && name != "target" => folders.push(path),
                Ok(kind) if kind.is_file() && is_source(&path) => {
                    let about = entry.metadata().ok();
                    let (changed, bytes) =
                        about.map_or((None, 0), |about| (about.modified().ok(), about.len()));
                    seen.insert(path, (changed, bytes));
                }
                _ => {}
            }
        }
    }
    seen
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "rs" || end == "toml")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_change_is_told_once_when_two_looks_agree() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::create_dir_all(file("target")).unwrap();
        fs::write(file("main.rs"), "one").unwrap();
        let mut watched = Watched::below(folder.path());
        assert_eq!(watched.look(), None);

        fs::write(file("main.rs"), "other").unwrap();
        assert_eq!(watched.look(), None, "it may still be written");
        fs::write(file("main.rs"), "another one").unwrap();
        assert_eq!(watched.look(), None, "it was still written");
        assert_eq!(watched.look(), Some(file("main.rs")));
        assert_eq!((watched.look(), watched.look()), (None, None));

        for name in ["agent.db", "target/made.rs", ".hidden.toml.swp"] {
            fs::write(file(name), "no source").unwrap();
        }
        assert_eq!((watched.look(), watched.look()), (None, None));
        fs::remove_file(file("main.rs")).unwrap();
        assert_eq!((watched.look(), watched.look()), (None, Some(file("main.rs"))));
    }
}
