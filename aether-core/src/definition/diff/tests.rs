//! Edits of code, and what a run finds at each place of the old code. The code is made of pieces, in which the tests read
//! like the workflows that they stand for.

use super::diff;
use crate::definition::def::{END, Edge, EdgeKind, START, StateKind};
use crate::definition::diff::report::{DefinitionDiff, PlaceDiff, Site, Verdict};
use crate::definition::owned::{DefinedChange, DefinedState, Definition};
use crate::vocabulary::outcome::EffectClass;

/// A piece of a workflow.
#[derive(Clone)]
enum Code {
    /// `name(cx).await`
    Call(&'static str),
    /// `name(cx).await?`
    Try(&'static str),
    /// A step of this class.
    Step(&'static str, EffectClass),
    /// A call of a workflow with this fingerprint.
    Inline(&'static str, &'static str),
    /// `cx.version(..).await`
    Mark,
    If(Vec<Code>, Vec<Code>),
    Loop(Vec<Code>),
    Join(Vec<Vec<Code>>),
    Race(Vec<Vec<Code>>),
    Return,
}

use Code::{Call, If, Inline, Join, Loop, Mark, Race, Return, Step as Class, Try};

/// Builds a definition, with junctions numbered behind the states.
#[derive(Default)]
struct Builder {
    states: Vec<DefinedState>,
    links: Vec<(u32, u32, EdgeKind)>,
    junctions: u32,
    branches: u16,
}

const FIRST_JUNCTION: u32 = 100_000;

impl Builder {
    fn junction(&mut self) -> u32 {
        self.junctions += 1;
        FIRST_JUNCTION + self.junctions
    }

    fn link(&mut self, from: u32, to: u32) {
        self.links.push((from, to, EdgeKind::Sequence));
    }

    fn state(&mut self, name: &str, kind: StateKind, branch: Option<u16>) -> usize {
        let state = self.states.len();
        self.states.push(DefinedState {
            state: state as u16,
            name: name.into(),
            kind,
            line: state as u32 + 1,
            column: 1,
            branch,
            step: None,
            class: None,
            inline: None,
        });
        state
    }

    /// Adds code behind `here`; returns where control is then.
    fn walk(&mut self, code: &[Code], mut here: u32, exit: u32, branch: Option<u16>) -> u32 {
        for piece in code {
            here = match piece {
                Call(name) | Try(name) => {
                    let state = self.state(name, StateKind::Call, branch) as u32;
                    self.link(here, state);
                    if matches!(piece, Try(_)) {
                        self.link(state, exit);
                    }
                    state
                }
                Class(name, class) => {
                    let state = self.state("function", StateKind::Call, branch);
                    self.states[state].step = Some((*name).into());
                    self.states[state].class = Some(*class);
                    self.link(here, state as u32);
                    state as u32
                }
                Inline(name, fingerprint) => {
                    let state = self.state(name, StateKind::Call, branch);
                    self.states[state].inline = Some((*fingerprint).into());
                    self.link(here, state as u32);
                    state as u32
                }
                Mark => {
                    let state = self.state("cx.version", StateKind::Effect, branch) as u32;
                    self.link(here, state);
                    state
                }
                If(then, otherwise) => {
                    let after = self.junction();
                    for arm in [then, otherwise] {
                        let end = self.walk(arm, here, exit, branch);
                        self.link(end, after);
                    }
                    after
                }
                Loop(body) => {
                    let head = self.junction();
                    self.link(here, head);
                    let end = self.walk(body, head, exit, branch);
                    self.link(end, head);
                    head
                }
                Join(closures) => self.fork("cx.join", StateKind::Join, closures, here, branch),
                Race(closures) => self.fork("cx.race", StateKind::Race, closures, here, branch),
                Return => {
                    self.link(here, exit);
                    self.junction()
                }
            };
        }
        here
    }

    fn fork(
        &mut self,
        name: &str,
        kind: StateKind,
        closures: &[Vec<Code>],
        here: u32,
        branch: Option<u16>,
    ) -> u32 {
        let mut starts = Vec::new();
        for closure in closures {
            let number = self.branches;
            self.branches += 1;
            let (start, exit) = (self.junction(), self.junction());
            self.link(START.into(), start);
            let end = self.walk(closure, start, exit, Some(number));
            self.link(end, exit);
            self.link(exit, END.into());
            starts.push(start);
        }
        let state = self.state(name, kind, branch) as u32;
        self.link(here, state);
        self.links.extend(starts.into_iter().map(|start| (state, start, EdgeKind::Fork)));
        state
    }

    /// The ways from one state to the next, through all junctions.
    fn edges(&self) -> Vec<Edge> {
        let states = 0..self.states.len() as u32;
        let mut edges = Vec::new();
        for from in states.chain([START.into()]) {
            let mut open = vec![(from, EdgeKind::Sequence)];
            let mut seen = Vec::new();
            while let Some((node, so_far)) = open.pop() {
                for (_, to, kind) in self.links.iter().filter(|link| link.0 == node) {
                    let kind = if so_far == EdgeKind::Fork { so_far } else { *kind };
                    if *to < FIRST_JUNCTION {
                        if !(kind == EdgeKind::Fork && *to == u32::from(END)) {
                            edges.push(Edge { from: from as u16, to: *to as u16, kind });
                        }
                    } else if !seen.contains(&(*to, kind)) {
                        seen.push((*to, kind));
                        open.push((*to, kind));
                    }
                }
            }
        }
        edges
    }
}

fn definition(file: &str, code: &[Code]) -> Definition {
    let mut builder = Builder::default();
    let exit = builder.junction();
    let end = builder.walk(code, START.into(), exit, None);
    builder.link(end, exit);
    builder.link(exit, END.into());
    let text = format!(
        r#"{{"name":"flow","module":"app","version":1,"fingerprint":"{file}","file":"{file}","states":[],"edges":[]}}"#
    );
    let mut definition = Definition::parse(&text).unwrap();
    definition.edges = builder.edges();
    definition.states = builder.states;
    definition
}

fn diffed(old: &[Code], new: &[Code]) -> DefinitionDiff {
    diff(&definition("old.rs", old), &definition("new.rs", new))
}

/// One letter for each place of the old code: `=` the same, `L` later code changed, `C` a callee changed, `X` changed before.
fn edit(old: &[Code], new: &[Code]) -> String {
    let letter = |place: &PlaceDiff| match place.verdict {
        Verdict::Same => '=',
        Verdict::LaterChanged => 'L',
        Verdict::CalleeChanged => 'C',
        Verdict::ChangedBefore => 'X',
    };
    diffed(old, new).places.iter().map(letter).collect()
}

const A: Code = Call("a");
const B: Code = Call("b");
const C: Code = Call("c");
const D: Code = Call("d");

#[test]
fn edits_of_a_sequence() {
    let old = [A, B, C];
    for (name, new, expected) in [
        ("nothing", vec![A, B, C], "==="),
        ("a step at the end", vec![A, B, C, D], "LLL"),
        ("a step at the front", vec![D, A, B, C], "XXX"),
        ("a step in the middle", vec![A, D, B, C], "LXX"),
        ("the last step removed", vec![A, B], "LLX"),
        ("the first step removed", vec![B, C], "XXX"),
        ("a step in the middle removed", vec![A, C], "LXX"),
        ("two steps swapped", vec![A, C, B], "LXX"),
        ("a step replaced", vec![A, D, C], "LXX"),
        ("everything removed", vec![], "XXX"),
        ("a step may fail early", vec![A, Try("b"), C], "LL="),
        ("a return before the end", vec![A, B, If(vec![Return], vec![]), C], "LL="),
    ] {
        assert_eq!(edit(&old, &new), expected, "{name}");
    }
}

#[test]
fn edits_of_branches_in_the_code() {
    let old = [A, If(vec![B], vec![C]), D];
    for (name, new, expected) in [
        ("nothing", vec![A, If(vec![B], vec![C]), D], "===="),
        ("arms swapped", vec![A, If(vec![C], vec![B]), D], "===="),
        ("one arm changed", vec![A, If(vec![B, A], vec![C]), D], "LL=X"),
        ("one arm removed", vec![A, B, D], "L=XX"),
        ("a third arm", vec![A, If(vec![B], vec![If(vec![C], vec![A])]), D], "L==="),
        ("an arm without anything", vec![A, If(vec![B], vec![If(vec![C], vec![])]), D], "L==="),
        ("the test comes later", vec![A, If(vec![B, D], vec![C, D])], "===="),
    ] {
        assert_eq!(edit(&old, &new), expected, "{name}");
    }
    // A condition around what was always done: old runs did it.
    assert_eq!(edit(&[A, B, C], &[A, If(vec![B], vec![]), C]), "L==");
    assert_eq!(edit(&[A, If(vec![B], vec![]), C], &[A, B, C]), "L=X");
}

#[test]
fn edits_of_loops() {
    let old = [A, Loop(vec![B]), C];
    for (name, new, expected) in [
        ("nothing", vec![A, Loop(vec![B]), C], "==="),
        ("the first round unrolled", vec![A, If(vec![B, Loop(vec![B])], vec![]), C], "==="),
        ("no loop any more", vec![A, B, C], "LXX"),
        ("another step in the loop", vec![A, Loop(vec![B, D]), C], "LXX"),
        ("a step behind the loop", vec![A, Loop(vec![B]), D, C], "LLX"),
    ] {
        assert_eq!(edit(&old, &new), expected, "{name}");
    }
}

#[test]
fn edits_of_joins_and_races() {
    // Places: a, b, c, cx.join, d.
    let old = [A, Join(vec![vec![B], vec![C]]), D];
    for (name, new, expected) in [
        ("nothing", vec![A, Join(vec![vec![B], vec![C]]), D], "====="),
        ("a branch swapped", vec![A, Join(vec![vec![C], vec![B]]), D], "LXXLX"),
        ("a branch grows", vec![A, Join(vec![vec![B, A], vec![C]]), D], "LLLLX"),
        ("a third branch", vec![A, Join(vec![vec![B], vec![C], vec![A]]), D], "LXXXX"),
        ("a branch less", vec![A, Join(vec![vec![B]]), D], "LXXXX"),
        ("what follows the join", vec![A, Join(vec![vec![B], vec![C]]), A], "LLLLX"),
        ("a race for a join", vec![A, Race(vec![vec![B], vec![C]]), D], "LXXXX"),
        ("a step before the join", vec![A, B, Join(vec![vec![B], vec![C]]), D], "LXXXX"),
    ] {
        assert_eq!(edit(&old, &new), expected, "{name}");
    }
}

#[test]
fn nested_branches_are_compared_with_their_own() {
    let code = |inner: Code| [Join(vec![vec![Join(vec![vec![A], vec![inner]])], vec![C]]), D];
    assert_eq!(edit(&code(B), &code(B)), "======");
    // Places: a, b, the inner join, c, the outer join, d.
    assert_eq!(edit(&code(B), &code(C)), "LXLLLX");
}

#[test]
fn a_mark_shifts_nothing() {
    let old = [A, B, C];
    assert_eq!(edit(&old, &[Mark, A, B, C]), "===");
    assert_eq!(edit(&[Mark, A, Mark, B, C], &old), "===");
    // Old runs keep the version that they have.
    assert_eq!(edit(&old, &[A, Mark, If(vec![B], vec![D]), C]), "L==");
    assert_eq!(edit(&[A, Mark, If(vec![B], vec![D]), C], &[A, D, C]), "LX=X");
    assert_eq!(edit(&[Join(vec![vec![A], vec![B]])], &[Join(vec![vec![Mark, A], vec![B, Mark]])]), "===");
}

#[test]
fn a_step_is_its_name_in_the_journal_and_its_class() {
    let step = |name, class| [Class(name, class), A];
    let old = step("send", EffectClass::Tool);
    assert_eq!(edit(&old, &step("send", EffectClass::Tool)), "==");
    assert_eq!(edit(&old, &step("post", EffectClass::Tool)), "XX");
    assert_eq!(edit(&old, &step("send", EffectClass::Read)), "XX");
}

#[test]
fn a_changed_workflow_inside_leaves_the_question_open_behind_it() {
    let code = |inner| [A, Inline("inner", inner), B];
    assert_eq!(edit(&code("aa"), &code("aa")), "===");
    assert_eq!(edit(&code("aa"), &code("bb")), "=CC");
    // Its name is not recorded.
    assert_eq!(edit(&code("aa"), &[A, Inline("renamed", "aa"), B]), "===");
    assert_eq!(edit(&code("aa"), &[A, Call("inner"), B]), "LXX");
    // A step behind it that is gone for sure says more.
    assert_eq!(edit(&code("aa"), &[A, Inline("inner", "bb"), C]), "LCX");
}

#[test]
fn the_lines_of_both_sides_are_named() {
    let diff = diffed(&[A, B, C], &[A, If(vec![D], vec![C])]);
    assert_eq!(diff.differences.len(), 1);
    assert_eq!(
        diff.differences[0].to_string(),
        "the old code asks for `b` at old.rs:2, and the new one for `c` at new.rs:3 or `d` at new.rs:2"
    );
    assert_eq!(diff.places[0].new, [Site { name: "a".into(), place: "new.rs:1".into() }]);
    assert_eq!((diff.places[2].cause, diff.fits()), (Some(0), false));
    let text = diff.to_string();
    assert!(text.contains("runs at 1 of 3 places fit"), "{text}");
    assert!(text.contains("`a` at old.rs:1: fits, only later code has changed"), "{text}");
    assert!(text.contains("`c` at old.rs:3: does not fit: the old code asks for `b`"), "{text}");
    assert!(text.contains("a replay tells for sure"), "{text}");
}

#[test]
fn an_end_that_moved_is_named_and_fits() {
    let diff = diffed(&[A], &[A, B]);
    assert!(diff.fits() && !diff.is_same());
    assert_eq!(diff.differences[0].to_string(), "the old code ends, and the new one for `b` at new.rs:2");
    assert!(diffed(&[A, B], &[A]).differences[0].to_string().ends_with("and the new one ends"));
}

#[test]
fn a_diff_survives_the_way_through_json() {
    let diff = diffed(&[A, B], &[A, C]);
    let text = serde_json::to_string(&diff).unwrap();
    assert_eq!(serde_json::from_str::<DefinitionDiff>(&text).unwrap(), diff);
}

#[test]
fn a_mark_whose_lowest_version_is_gone_is_named() {
    let mark = |from| DefinedChange { name: "use-baz".into(), from, to: 2, each: false, line: 9 };
    let (mut old, mut new) = (definition("old.rs", &[A]), definition("new.rs", &[A]));
    old.changes = vec![mark(1)];
    new.changes = vec![mark(2)];
    let raised = diff(&old, &new);
    assert!(!raised.fits() && raised.to_string().contains("mark `use-baz` begins with 2"), "{raised}");
    assert!(diff(&new, &old).fits());
    new.changes.clear();
    let gone = diff(&old, &new);
    assert!(gone.fits() && gone.to_string().contains("mark `use-baz` is gone"), "{gone}");
}

#[test]
fn the_same_code_is_said_to_be_the_same() {
    let code = definition("a.rs", &[A, Loop(vec![B]), Join(vec![vec![C], vec![D]])]);
    let same = diff(&code, &code);
    assert!(same.is_same() && !same.code_changed);
    assert_eq!(same.to_string(), "flow v1 -> v1: the same code\n");
}

#[test]
fn code_with_too_many_ways_counts_as_changed_and_ends() {
    let deep = (0..100).fold(vec![A], |inner, _| vec![Join(vec![inner])]);
    let deep = diffed(&deep, &deep);
    assert!(!deep.fits() && deep.to_string().contains("cannot be told"));
    // Definitions of strangers: a state that awaits itself, and ways from everywhere to everywhere.
    let mut wild = definition("wild.rs", &[A, B, C, Join(vec![vec![D], vec![A]])]);
    let all = (0..6).flat_map(|from| (0..6).map(move |to| (from, to)));
    wild.edges.extend(all.clone().map(|(from, to)| Edge { from, to, kind: EdgeKind::Fork }));
    wild.edges.extend(all.map(|(from, to)| Edge { from, to, kind: EdgeKind::Loop }));
    assert_eq!(diff(&wild, &wild).places.len(), 6);
}
