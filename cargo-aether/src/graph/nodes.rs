//! Functions and data, and what they name.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::graph::object_file::read;
use crate::graph::parts::{Definition, Kind, Part, ReadError, Source};
use crate::parallel;

/// Number of a node.
pub(crate) type Id = u32;

/// A function or a datum.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) symbol: Option<Arc<str>>,
    pub(crate) kind: Kind,
    pub(crate) place: Option<Place>,
    /// Its part of the graph's references.
    references: Range<usize>,
}

/// Where the bytes of a node are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number of the object file.
    pub(crate) source: u32,
    pub(crate) section: u32,
    pub(crate) start: u64,
}

/// All object files of a build.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) sources: Vec<Source>,
    /// What nodes name, and where inside of their sections they do.
    references: Vec<(Id, u64)>,
    names: FxHashMap<Arc<str>, Id>,
}

impl Graph {
    /// Reads libraries and object files, on `jobs` threads.
    pub(crate) fn read(files: &[PathBuf], jobs: usize) -> Result<Self, ReadError> {
        // A thread that panicked has found a bug of the parser; what it read is missing, so the check must not go on.
        let read = parallel::try_map(files, jobs, |file| read(file)).map_err(|_| panicked(files))?;
        let mut graph = Self::default();
        for parts in read {
            parts?.into_iter().for_each(|part| graph.add(part));
        }
        Ok(graph)
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    /// All nodes with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &Node)> {
        (0..).zip(&self.nodes)
    }

    /// What a node names, and where inside of its section it does.
    pub(crate) fn named_by(&self, id: Id) -> &[(Id, u64)] {
        &self.references[self.node(id).references.clone()]
    }

    /// How many references there are.
    pub(crate) const fn references(&self) -> usize {
        self.references.len()
    }

    fn add(&mut self, part: Part) {
        let source = number(self.sources.len());
        self.sources.push(part.source);
        let known: Vec<(Id, bool)> =
            part.definitions.iter().map(|definition| self.place(source, definition)).collect();
        for (definition, (id, is_first)) in part.definitions.iter().zip(&known) {
            if *is_first {
                let named = |&(to, at): &(usize, u64)| (known[to].0, at);
                let begin = self.references.len();
                self.references.extend(part.references[definition.references.clone()].iter().map(named));
                self.nodes[*id as usize].references = begin..self.references.len();
            }
        }
    }

    /// The node of a definition, and whether this is the definition that counts: the first one of an instance that several
    /// crates share is as good as any.
    fn place(&mut self, source: u32, definition: &Definition) -> (Id, bool) {
        let global = definition.symbol.as_ref().filter(|_| definition.is_global);
        let id = match global.and_then(|name| self.names.get(name)) {
            Some(id) => *id,
            None => {
                let id = number(self.nodes.len());
                let (symbol, kind) = (definition.symbol.clone(), Kind::Elsewhere);
                self.nodes.push(Node { symbol, kind, place: None, references: 0..0 });
                if let Some(name) = global {
                    self.names.insert(Arc::clone(name), id);
                }
                id
            }
        };
        let node = &mut self.nodes[id as usize];
        let is_first = definition.kind != Kind::Elsewhere && node.kind == Kind::Elsewhere;
        if is_first {
            node.kind = definition.kind;
            node.place = Some(Place { source, section: definition.section, start: definition.start });
        }
        (id, is_first)
    }
}

fn panicked(files: &[PathBuf]) -> ReadError {
    let file = files.first().map(|file| file.display().to_string()).unwrap_or_default();
    ReadError::File { file: format!("{file} or one beside it"), reason: "the parser has failed".into() }
}

#[allow(clippy::cast_possible_truncation, reason = "a build with 4 billion symbols does not fit into memory")]
fn number(count: usize) -> u32 {
    count as u32
}
