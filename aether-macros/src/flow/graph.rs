//! The graph under construction: nodes, ways between them, and where control is now.
//!
//! Promise: a frontier is always one node; where ways meet, a junction is made. Junctions are taken out again at the
//! end.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Label, Lifetime};

use crate::plan::{END, Edge, EdgeKind, START};
use crate::syntax::conditions::Conditions;

/// A place in the body that control can be at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Start,
    State(u16),
    Junction(usize),
    End,
}

/// What `break` and `continue` refer to.
pub(crate) struct Frame {
    pub(crate) label: Option<Lifetime>,
    /// `None` for a labelled block.
    pub(crate) head: Option<Node>,
    pub(crate) after: Node,
}

/// A graph, and the walk that makes it.
pub(crate) struct Flow {
    ways: BTreeMap<Node, BTreeSet<(Node, EdgeKind)>>,
    states: usize,
    junctions: usize,
    /// Where control is now.
    pub(crate) here: Node,
    /// Where `return` and `?` go.
    pub(crate) exit: Node,
    pub(crate) frames: Vec<Frame>,
    /// The starts of the branch closures in the expression that is awaited, innermost await last.
    pub(crate) forks: Vec<Vec<Node>>,
    pub(crate) in_plain_closure: bool,
    pub(crate) conditions: Conditions,
}

impl Flow {
    pub(crate) fn new(states: usize, conditions: Conditions) -> Self {
        Self {
            ways: BTreeMap::new(),
            states,
            junctions: 1,
            here: Node::Start,
            exit: Node::Junction(0),
            frames: Vec::new(),
            forks: Vec::new(),
            in_plain_closure: false,
            conditions,
        }
    }

    pub(crate) fn link(&mut self, from: Node, to: Node, kind: EdgeKind) {
        self.ways.entry(from).or_default().insert((to, kind));
    }

    pub(crate) fn junction(&mut self) -> Node {
        self.junctions += 1;
        Node::Junction(self.junctions)
    }

    /// Continues at `node`.
    pub(crate) fn go(&mut self, node: Node, kind: EdgeKind) {
        self.link(self.here, node, kind);
        self.here = node;
    }

    /// Leaves for `node`; what follows in the source is not reached from here.
    pub(crate) fn leave(&mut self, node: Node, kind: EdgeKind) {
        self.link(self.here, node, kind);
        self.here = self.junction();
    }

    /// Walks one of several ways from `from` to `to`.
    pub(crate) fn way(&mut self, from: Node, to: Node, walk: impl FnOnce(&mut Self)) {
        self.here = from;
        let entry = self.junction();
        self.go(entry, EdgeKind::Branch);
        walk(self);
        self.link(self.here, to, EdgeKind::Sequence);
    }

    /// Walks what may be absent.
    pub(crate) fn optional(&mut self, walk: impl FnOnce(&mut Self)) {
        let (from, to) = (self.here, self.junction());
        self.way(from, to, walk);
        self.link(from, to, EdgeKind::Sequence);
        self.here = to;
    }

    /// Walks a loop; `body` is told where the loop is left.
    pub(crate) fn repeat(&mut self, label: Option<&Label>, body: impl FnOnce(&mut Self, Node)) {
        let (head, after) = (self.junction(), self.junction());
        self.go(head, EdgeKind::Sequence);
        let label = label.map(|label| label.name.clone());
        self.frames.push(Frame { label, head: Some(head), after });
        body(self, after);
        self.link(self.here, head, EdgeKind::Loop);
        self.frames.pop();
        self.here = after;
    }

    /// Walks a body with its own start and end, and gives its start.
    fn machine(&mut self, plain: bool, walk: impl FnOnce(&mut Self)) -> Node {
        let (start, exit) = (self.junction(), self.junction());
        self.link(Node::Start, start, EdgeKind::Sequence);
        self.link(exit, Node::End, EdgeKind::Sequence);
        let outer = (self.here, self.exit, self.in_plain_closure);
        let frames = std::mem::take(&mut self.frames);
        let forks = std::mem::take(&mut self.forks);
        (self.here, self.exit, self.in_plain_closure) = (start, exit, plain);
        walk(self);
        self.link(self.here, exit, EdgeKind::Sequence);
        (self.here, self.exit, self.in_plain_closure) = outer;
        (self.frames, self.forks) = (frames, forks);
        start
    }

    pub(crate) fn branch_machine(&mut self, plain: bool, walk: impl FnOnce(&mut Self)) {
        let start = self.machine(plain, walk);
        if let Some(forks) = self.forks.last_mut() {
            forks.push(start);
        }
    }

    /// The places a `break` or `continue` may refer to: the named frame, or the innermost loop.
    pub(crate) fn frames(&self, label: Option<&Lifetime>) -> Option<&Frame> {
        self.frames.iter().rev().find(|frame| match label {
            Some(label) => frame.label.as_ref().is_some_and(|name| name.ident == label.ident),
            None => frame.head.is_some(),
        })
    }

    /// Takes the junctions out.
    pub(crate) fn resolve(&self) -> Vec<Edge> {
        let mut edges = BTreeSet::new();
        let states = (0..self.states)
            .filter_map(|state| u16::try_from(state).ok())
            .map(|state| (state, Node::State(state)));
        for (from, node) in std::iter::once((START, Node::Start)).chain(states) {
            self.follow(from, node, &mut edges);
        }
        edges.into_iter().collect()
    }

    fn follow(&self, from: u16, node: Node, edges: &mut BTreeSet<Edge>) {
        let mut seen = BTreeSet::new();
        let mut open = vec![(node, EdgeKind::Sequence)];
        while let Some((node, so_far)) = open.pop() {
            for (next, kind) in self.ways.get(&node).into_iter().flatten() {
                let kind = so_far.max(*kind);
                match next {
                    Node::State(to) => drop(edges.insert(Edge { from, to: *to, kind })),
                    Node::End if kind != EdgeKind::Fork => drop(edges.insert(Edge { from, to: END, kind })),
                    Node::Junction(_) if seen.insert((*next, kind)) => open.push((*next, kind)),
                    Node::Start | Node::End | Node::Junction(_) => {}
                }
            }
        }
    }
}
