//! A source tree as the agent may see it.
//!
//! Promise: nothing outside the tree is read; listings and hits come in a stable order; every answer is bounded.
//! Hidden entries, `target`, `node_modules`, links, binary files and files over one MiB are left out.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use aether::prelude::*;
use serde::{Deserialize, Serialize};

/// Files looked at, at most.
const MAX_FILES: usize = 20_000;
/// Larger files are left out, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Names in one listing, at most.
const MAX_LISTED: usize = 200;
/// Hits in one answer, at most, and of one file.
const MAX_HITS: usize = 100;
const MAX_HITS_PER_FILE: usize = 8;
/// Lines in one slice, at most.
const MAX_LINES: usize = 80;
/// Longer lines are cut, in characters.
const MAX_COLUMNS: usize = 200;
/// Folders that hold what was built or fetched, not what was written.
const BUILT: [&str; 2] = ["target", "node_modules"];

/// Names of files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// Paths from the tree's root, sorted.
    pub(crate) files: Vec<String>,
    /// How many there are, listed or not.
    pub(crate) total: usize,
}

/// Places where a text stands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hits {
    /// What was searched for.
    pub(crate) text: String,
    /// The places; files with many hits come first.
    pub(crate) hits: Vec<Hit>,
    /// How many lines have it, shown or not.
    pub(crate) lines: usize,
    /// How many files have it.
    pub(crate) files: usize,
}

/// One line with the text.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hit {
    /// Path from the tree's root.
    pub(crate) path: String,
    /// Number of the line, from 1.
    pub(crate) line: usize,
    /// The line, trimmed.
    pub(crate) text: String,
}

/// Some lines of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Slice {
    /// Path from the tree's root.
    pub(crate) path: String,
    /// Number of the first line, from 1.
    pub(crate) first: usize,
    /// The lines.
    pub(crate) lines: Vec<String>,
    /// How many lines the file has.
    pub(crate) total: usize,
}

/// A folder that exists.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree at `root`. Fails for good when that is not a folder that can be read.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        let refused = |reason: &str| Failure::permanent(format_args!("{}: {reason}", root.display()));
        let root = root.canonicalize().map_err(|e| refused(&e.to_string()))?;
        if !root.is_dir() {
            return Err(refused("not a folder"));
        }
        fs::read_dir(&root).map_err(|e| refused(&e.to_string()))?;
        Ok(Self { root })
    }

    /// Where it is, absolute.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The files below `folder`; an empty name means the whole tree.
    pub(crate) fn list(&self, folder: &str) -> Result<Listing> {
        let mut files = self.files(folder)?;
        let total = files.len();
        files.truncate(MAX_LISTED);
        Ok(Listing { files, total })
    }

    /// The lines that hold `text`, whatever its case.
    pub(crate) fn search(&self, text: &str) -> Result<Hits> {
        let wanted = text.trim().to_lowercase();
        if wanted.is_empty() {
            return Err(Failure::permanent("the text to search for is empty"));
        }
        let found = self.files("")?.into_iter().filter_map(|path| {
            let content = self.text(&self.root.join(&path)).ok()??;
            let hits = hits_in(&path, &content, &wanted);
            (!hits.is_empty()).then_some(hits)
        });
        let mut found: Vec<Vec<Hit>> = found.collect();
        let (files, lines) = (found.len(), found.iter().map(Vec::len).sum());
        found.sort_by_key(|hits| std::cmp::Reverse(hits.len()));
        let shown = found.into_iter().flat_map(|hits| hits.into_iter().take(MAX_HITS_PER_FILE));
        Ok(Hits { text: text.trim().to_owned(), hits: shown.take(MAX_HITS).collect(), lines, files })
    }

    /// At most `count` lines of a file, from line `first` on.
    pub(crate) fn slice(&self, path: &str, first: usize, count: usize) -> Result<Slice> {
        let refused = |reason: String| Failure::permanent(format_args!("{path}: {reason}"));
        let place = self.inside(path)?;
        let content = self.text(&place).map_err(|e| refused(e.to_string()))?;
        let content = content.ok_or_else(|| refused("not a text file of at most one MiB".into()))?;
        let (first, total) = (first.max(1), content.lines().count());
        let lines = content.lines().skip(first - 1).take(count.clamp(1, MAX_LINES)).map(cut).collect();
        Ok(Slice { path: path.to_owned(), first, lines, total })
    }

    /// The place of `path`, which must lie in the tree, links resolved.
    fn inside(&self, path: &str) -> Result<PathBuf> {
        let refused = |reason: &str| Failure::permanent(format_args!("{path:?}: {reason}"));
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(path).components().all(plain) {
            return Err(refused("give a path from the root of the tree, without `..`"));
        }
        let place = self.root.join(path).canonicalize().map_err(|e| refused(&e.to_string()))?;
        let within = place.strip_prefix(&self.root).map_err(|_| refused("leads out of the tree"))?;
        if within.components().any(|part| is_left_out(&part.as_os_str().to_string_lossy())) {
            return Err(refused("left out of the tree"));
        }
        Ok(place)
    }

    /// Paths of all files below `folder`, sorted, with `/` between names.
    fn files(&self, folder: &str) -> Result<Vec<String>> {
        let mut files = Vec::new();
        let mut open = vec![self.inside(folder)?];
        while let Some(folder) = open.pop() {
            // A folder that cannot be read is passed over: the rest of the tree is still worth reading.
            let mut entries: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().collect();
            entries.sort_unstable_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let name = entry.file_name().to_string_lossy().into_owned();
                let Ok(kind) = entry.file_type() else { continue };
                if is_left_out(&name) {
                    continue;
                } else if kind.is_dir() {
                    open.push(entry.path());
                } else if kind.is_file() && files.len() < MAX_FILES {
                    files.extend(self.name_of(&entry.path()));
                }
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    fn name_of(&self, place: &Path) -> Option<String> {
        let parts = place.strip_prefix(&self.root).ok()?.iter().map(|part| part.to_str());
        Some(parts.collect::<Option<Vec<_>>>()?.join("/"))
    }

    /// The content of a file; `None` when it is large or not text.
    fn text(&self, place: &Path) -> io::Result<Option<String>> {
        if fs::metadata(place)?.len() > MAX_BYTES {
            return Ok(None);
        }
        Ok(String::from_utf8(fs::read(place)?).ok().filter(|text| !text.contains('\0')))
    }
}

fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || BUILT.contains(&name)
}

fn hits_in(path: &str, content: &str, wanted: &str) -> Vec<Hit> {
    let hit = |(at, line): (usize, &str)| {
        let found = line.to_lowercase().contains(wanted);
        found.then(|| Hit { path: path.to_owned(), line: at + 1, text: cut(line.trim()) })
    };
    content.lines().enumerate().filter_map(hit).collect()
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_COLUMNS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}
