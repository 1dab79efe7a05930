//! The drawing of a workflow: its states one below the other, in the order of the source, with arrows between them.
//!
//! Promise: a pure function of a definition and of how many runs stand at each state.

use aether_core::definition::Definition;
use aether_core::definition::def::{END, Edge, EdgeKind, START};

/// Sizes of the drawing.
const WIDTH: usize = 250;
const HEIGHT: usize = 44;
const GAP: usize = 26;
const INDENT: usize = 26;
/// Room at the sides for arrows that pass states by.
const MARGIN: usize = 74;

/// A workflow as it is drawn.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Arrow>,
}

/// A state as it is drawn.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) width: usize,
    pub(crate) name: String,
    pub(crate) below: String,
    /// Runs that stand here; empty where none does.
    pub(crate) here: String,
}

impl Node {
    pub(crate) const fn text_x(&self) -> usize {
        self.x + 14
    }

    pub(crate) const fn middle(&self) -> usize {
        self.y + HEIGHT / 2
    }

    pub(crate) const fn badge_x(&self) -> usize {
        self.x + self.width - 44
    }

    pub(crate) const fn height(&self) -> usize {
        HEIGHT
    }
}

/// A transition as it is drawn.
#[derive(Debug)]
pub(crate) struct Arrow {
    pub(crate) path: String,
    pub(crate) tip: String,
    pub(crate) kind: &'static str,
}

impl Graph {
    /// The drawing; `here` says how many runs stand at a state.
    pub(crate) fn of(definition: &Definition, here: impl Fn(u16) -> usize) -> Self {
        let row = |at: usize| 8 + at * (HEIGHT + GAP);
        let indent = |branch: Option<u16>| if branch.is_some() { INDENT } else { 0 };
        let end = |name: &str, at: usize| Node {
            x: MARGIN + WIDTH / 2 - 45,
            y: row(at),
            width: 90,
            name: name.to_owned(),
            below: String::new(),
            here: String::new(),
        };
        let mut nodes = vec![end("start", 0)];
        for (at, state) in definition.states.iter().enumerate() {
            let class = state.class.map(|class| format!("{} · ", class.as_str())).unwrap_or_default();
            let count = here(state.state);
            nodes.push(Node {
                x: MARGIN + indent(state.branch),
                y: row(at + 1),
                width: WIDTH - indent(state.branch),
                name: crate::text::json::line(&state.name, 26),
                below: format!("{class}line {}", state.line),
                here: if count > 0 { count.to_string() } else { String::new() },
            });
        }
        nodes.push(end("end", definition.states.len() + 1));
        let place = |state: u16| match state {
            START => Some(0),
            END => Some(definition.states.len() + 1),
            state => definition.states.iter().position(|known| known.state == state).map(|at| at + 1),
        };
        let edges = definition.edges.iter().filter_map(|edge| {
            let (from, to) = (place(edge.from)?, place(edge.to)?);
            Some(arrow(edge, (from, nodes.get(from)?), (to, nodes.get(to)?)))
        });
        Self {
            edges: edges.collect(),
            width: WIDTH + 2 * MARGIN,
            height: row(definition.states.len() + 2),
            nodes,
        }
    }
}

fn arrow(edge: &Edge, (from, above): (usize, &Node), (to, below): (usize, &Node)) -> Arrow {
    let kind = match edge.kind {
        EdgeKind::Branch => "branch",
        EdgeKind::Loop => "loop",
        EdgeKind::Fork => "fork",
        EdgeKind::EarlyReturn => "early_return",
        _ => "sequence",
    };
    if to == from + 1 {
        let x = (above.x + above.width / 2).max(below.x + 20).min(below.x + below.width - 20);
        let (begin, end) = (above.y + HEIGHT, below.y);
        return Arrow { path: format!("M{x} {begin}V{}", end - 6), tip: tip(x, end, "down"), kind };
    }
    // Down passes at the right, back up at the left; the farther, the farther out.
    let out = (18 + 7 * to.abs_diff(from)).min(MARGIN - 8);
    let (begin, end) = (above.middle(), below.middle());
    if to > from {
        let (x, into) = (above.x + above.width, below.x + below.width);
        let side = MARGIN + WIDTH + out;
        let path = format!("M{x} {begin}C{side} {begin} {side} {end} {} {end}", into + 6);
        return Arrow { path, tip: tip(into, end, "left"), kind };
    }
    let side = MARGIN - out;
    // A state that is its own next one leaves at the top and enters at the bottom of its side.
    let (begin, end) = if to == from { (begin - 10, end + 10) } else { (begin, end) };
    let path = format!("M{} {begin}C{side} {begin} {side} {end} {} {end}", above.x, below.x - 6);
    Arrow { path, tip: tip(below.x, end, "right"), kind }
}

/// The head of an arrow that ends at a place.
fn tip(x: usize, y: usize, to: &str) -> String {
    match to {
        "down" => format!("M{x} {y}l-4 -7h8z"),
        "left" => format!("M{x} {y}l7 -4v8z"),
        _ => format!("M{x} {y}l-7 -4v8z"),
    }
}
