//! The state machine of a workflow as a drawing: Mermaid and DOT, and as JSON.
//!
//! Promise: the same definition gives the same text, and any name is escaped, so the text is always well-formed.

use std::fmt::Write as _;

use serde_json::Value;

use crate::definition::def::{END, EdgeKind, START, StateKind, WorkflowDef};
use crate::definition::owned::{DefinedState, Definition};

/// The number of a branch closure and its states.
type Branch<'d> = (Option<u16>, Vec<&'d DefinedState>);

impl WorkflowDef {
    /// The state machine as a [Mermaid](https://mermaid.js.org) flow chart. Branch closures are drawn as boxes of
    /// their own.
    ///
    /// ```
    /// # use aether_core::definition::def::{END, Edge, EdgeKind, START, State, StateKind, WorkflowDef};
    /// static DEF: WorkflowDef = WorkflowDef {
    ///     name: "hello", module: "app", doc: "", version: 1, fingerprint: "00", file: "src/app.rs", line: 1,
    ///     states: &[State { name: "search", kind: StateKind::Call, line: 3, column: 9, branch: None }],
    ///     edges: &[
    ///         Edge { from: START, to: 0, kind: EdgeKind::Sequence },
    ///         Edge { from: 0, to: END, kind: EdgeKind::Sequence },
    ///     ],
    ///     changes: &[],
    ///     allows: &[],
    /// };
    /// assert!(DEF.mermaid().contains("s0[\"search<br/>:3\"]"));
    /// ```
    pub fn mermaid(&self) -> String {
        Definition::of(self).mermaid()
    }

    /// The state machine in the DOT language of Graphviz, for `dot -Tsvg`.
    pub fn dot(&self) -> String {
        Definition::of(self).dot()
    }

    /// The whole definition as JSON, with what is known of the functions that it calls. [`Definition::parse`] reads it back.
    pub fn json(&self) -> Value {
        Definition::of(self).to_json()
    }
}

impl Definition {
    /// As [`WorkflowDef::mermaid`], also of a workflow that this program does not link.
    ///
    /// ```
    /// # use aether_core::definition::{Definition, DefinitionError};
    /// # fn draw(text: &str) -> Result<(), DefinitionError> {
    /// println!("{}", Definition::parse(text)?.mermaid());
    /// # Ok(()) }
    /// ```
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n    start([start])\n    stop([end])\n");
        for (branch, states) in self.by_branch() {
            let indent = if branch.is_some() { "        " } else { "    " };
            if let Some(branch) = branch {
                put(&mut text, format_args!("    subgraph b{branch}[\"branch {branch}\"]\n"));
            }
            for state in states {
                let (number, (open, close)) = (state.state, mermaid_shape(state.kind));
                let name = mermaid_text(&state.name);
                put(
                    &mut text,
                    format_args!("{indent}s{number}{open}\"{name}<br/>:{}\"{close}\n", state.line),
                );
            }
            if branch.is_some() {
                text.push_str("    end\n");
            }
        }
        for edge in &self.edges {
            let (from, to) = (node(edge.from), node(edge.to));
            match label(edge.kind) {
                "" => put(&mut text, format_args!("    {from} --> {to}\n")),
                label if is_dotted(edge.kind) => {
                    put(&mut text, format_args!("    {from} -. {label} .-> {to}\n"))
                }
                label => put(&mut text, format_args!("    {from} -- {label} --> {to}\n")),
            }
        }
        text
    }

    /// As [`WorkflowDef::dot`], also of a workflow that this program does not link.
    pub fn dot(&self) -> String {
        let mut text = format!("digraph {} {{\n    label={};\n", quoted(&self.name), quoted(&self.title()));
        text.push_str("    node [shape=box, style=rounded];\n");
        text.push_str("    start [shape=circle, label=\"\"];\n    stop [shape=doublecircle, label=\"\"];\n");
        for (branch, states) in self.by_branch() {
            let indent = if branch.is_some() { "        " } else { "    " };
            if let Some(branch) = branch {
                put(
                    &mut text,
                    format_args!("    subgraph cluster_b{branch} {{\n        label=\"branch {branch}\";\n"),
                );
            }
            for state in states {
                let (number, shape) = (state.state, dot_shape(state.kind));
                let label = quoted(&format!("{}\n:{}", state.name, state.line));
                put(&mut text, format_args!("{indent}s{number} [shape={shape}, label={label}];\n"));
            }
            if branch.is_some() {
                text.push_str("    }\n");
            }
        }
        for edge in &self.edges {
            let (from, to) = (node(edge.from), node(edge.to));
            let style = if is_dotted(edge.kind) { ", style=dashed" } else { "" };
            let label = quoted(label(edge.kind));
            put(&mut text, format_args!("    {from} -> {to} [label={label}{style}];\n"));
        }
        text.push_str("}\n");
        text
    }

    fn title(&self) -> String {
        format!("{} v{} ({})", self.name, self.version, self.fingerprint)
    }

    /// The states of the body, then those of each branch closure.
    fn by_branch(&self) -> Vec<Branch<'_>> {
        let mut branches: Vec<Option<u16>> = self.states.iter().map(|state| state.branch).collect();
        branches.sort_unstable();
        branches.dedup();
        let of = |branch| self.states.iter().filter(move |state| state.branch == branch).collect();
        branches.into_iter().map(|branch| (branch, of(branch))).collect()
    }
}

/// Writing to a string does not fail.
fn put(text: &mut String, args: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(args);
}

fn node(number: u16) -> String {
    match number {
        START => "start".into(),
        END => "stop".into(),
        number => format!("s{number}"),
    }
}

fn label(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Sequence | EdgeKind::Branch => "",
        EdgeKind::Loop => "again",
        EdgeKind::Fork => "fork",
        EdgeKind::EarlyReturn => "return",
    }
}

fn is_dotted(kind: EdgeKind) -> bool {
    matches!(kind, EdgeKind::Fork | EdgeKind::EarlyReturn)
}

fn mermaid_shape(kind: StateKind) -> (&'static str, &'static str) {
    match kind {
        StateKind::Join | StateKind::Race | StateKind::Each => ("{{", "}}"),
        StateKind::Child => ("[[", "]]"),
        StateKind::Effect => ("(", ")"),
        StateKind::Call | StateKind::Other => ("[", "]"),
    }
}

fn dot_shape(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Join | StateKind::Race | StateKind::Each => "hexagon",
        StateKind::Child => "component",
        StateKind::Effect => "ellipse",
        StateKind::Call | StateKind::Other => "box",
    }
}

/// Text between Mermaid's quotes.
fn mermaid_text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '#' => out.push_str("#35;"),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A DOT string.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::def::{Allow, Edge, State};

    const fn state(name: &'static str, kind: StateKind, branch: Option<u16>) -> State {
        State { name, kind, line: 7, column: 3, branch }
    }

    const fn edge(from: u16, to: u16, kind: EdgeKind) -> Edge {
        Edge { from, to, kind }
    }

    static DEF: WorkflowDef = WorkflowDef {
        name: "tri\"age",
        module: "app::flows",
        doc: "Doc.",
        version: 2,
        fingerprint: "0011223344556677",
        file: "src/flows.rs",
        line: 5,
        states: &[
            state("search", StateKind::Call, Some(0)),
            state("cx.join", StateKind::Join, None),
            state("cx.child", StateKind::Child, None),
            state("cx.now", StateKind::Effect, None),
        ],
        edges: &[
            edge(START, 0, EdgeKind::Sequence),
            edge(START, 1, EdgeKind::Sequence),
            edge(0, END, EdgeKind::Sequence),
            edge(1, 0, EdgeKind::Fork),
            edge(1, 2, EdgeKind::Branch),
            edge(2, 2, EdgeKind::Loop),
            edge(2, END, EdgeKind::EarlyReturn),
            edge(2, 3, EdgeKind::Sequence),
            edge(3, END, EdgeKind::Sequence),
        ],
        changes: &[crate::definition::def::Change { name: "use-baz", from: 1, to: 2, each: false, line: 9 }],
        allows: &[Allow { what: "clock", reason: "for the log" }],
    };

    #[test]
    fn mermaid() {
        let expected = r#"flowchart TD
    start([start])
    stop([end])
    s1{{"cx.join<br/>:7"}}
    s2[["cx.child<br/>:7"]]
    s3("cx.now<br/>:7")
    subgraph b0["branch 0"]
        s0["search<br/>:7"]
    end
    start --> s0
    start --> s1
    s0 --> stop
    s1 -. fork .-> s0
    s1 --> s2
    s2 -- again --> s2
    s2 -. return .-> stop
    s2 --> s3
    s3 --> stop
"#;
        assert_eq!(DEF.mermaid(), expected);
        let read = Definition::parse(&DEF.json().to_string()).unwrap();
        assert_eq!((read.mermaid(), read.dot()), (DEF.mermaid(), DEF.dot()), "of one that was kept, too");
    }

    #[test]
    fn dot() {
        let expected = r#"digraph "tri\"age" {
    label="tri\"age v2 (0011223344556677)";
    node [shape=box, style=rounded];
    start [shape=circle, label=""];
    stop [shape=doublecircle, label=""];
    s1 [shape=hexagon, label="cx.join\n:7"];
    s2 [shape=component, label="cx.child\n:7"];
    s3 [shape=ellipse, label="cx.now\n:7"];
    subgraph cluster_b0 {
        label="branch 0";
        s0 [shape=box, label="search\n:7"];
    }
    start -> s0 [label=""];
    start -> s1 [label=""];
    s0 -> stop [label=""];
    s1 -> s0 [label="fork", style=dashed];
    s1 -> s2 [label=""];
    s2 -> s2 [label="again"];
    s2 -> stop [label="return", style=dashed];
    s2 -> s3 [label=""];
    s3 -> stop [label=""];
}
"#;
        assert_eq!(DEF.dot(), expected);
    }

    #[test]
    fn json() {
        let json = DEF.json();
        assert_eq!(json["states"][0]["branch"], 0);
        assert_eq!(json["states"][1]["kind"], "join");
        assert_eq!(json["edges"][0], serde_json::json!({"from": "start", "to": 0, "kind": "sequence"}));
        assert_eq!(json["edges"][6]["kind"], "early_return");
        assert_eq!(json["allows"][0]["reason"], "for the log");
        assert_eq!(json["version"], 2);
        let change = serde_json::json!({"name": "use-baz", "from": 1, "to": 2, "each": false, "line": 9});
        assert_eq!(json["changes"], serde_json::json!([change]));
    }
}
