//! Random bodies are run by a model of Rust's control flow; every transition it makes must have an edge.

use std::collections::BTreeSet;

use syn::Block;

use crate::diagnostics::report::Diagnostics;
use crate::flow::gate;
use crate::flow::walk::edges;
use crate::plan::{END, START};

enum Program {
    Await,
    Try,
    Seq(Vec<Program>),
    If(Box<Program>, Box<Program>, Box<Program>),
    And(Box<Program>, Box<Program>),
    Match(Vec<(Option<Program>, Program)>),
    Loop(Box<Program>),
    While(Box<Program>, Box<Program>),
    For(Box<Program>),
    Block(Box<Program>),
    Break(usize),
    Continue(usize),
    Return,
    LetElse(Box<Program>),
}

/// What a label in scope stands on.
#[derive(Clone, Copy, PartialEq)]
enum Label {
    Loop,
    Block,
}

enum Exit {
    Break(usize),
    Continue(usize),
    Return,
    /// The model gave up; nothing is known about the end.
    Cut,
}

/// A small generator of numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }

    fn code(&mut self, depth: usize, labels: &mut Vec<Label>) -> Program {
        let leaf = depth == 0;
        match self.below(if leaf { 7 } else { 18 }) {
            0..=2 => Program::Await,
            3 => Program::Try,
            4 if !labels.is_empty() => Program::Break(self.below(labels.len())),
            5 if labels.contains(&Label::Loop) => {
                let loops: Vec<usize> = (0..labels.len()).filter(|at| labels[*at] == Label::Loop).collect();
                Program::Continue(loops[self.below(loops.len())])
            }
            6 => Program::Return,
            7..=9 => Program::Seq((0..=self.below(3)).map(|_| self.code(depth - 1, labels)).collect()),
            10 | 11 => {
                Program::If(self.boxed(depth, labels), self.boxed(depth, labels), self.boxed(depth, labels))
            }
            12 => Program::And(self.boxed(depth, labels), self.boxed(depth, labels)),
            13 => {
                let arms = (0..=self.below(3)).map(|_| {
                    let guard = (self.below(2) == 0).then(|| self.code(depth - 1, labels));
                    (guard, self.code(depth - 1, labels))
                });
                Program::Match(arms.collect())
            }
            14 => Program::LetElse(self.boxed(depth, labels)),
            15 => self.within(Label::Block, depth, labels, |_, body| Program::Block(body)),
            16 => self.within(Label::Loop, depth, labels, |dice, body| match dice.below(2) {
                0 => Program::Loop(body),
                _ => Program::For(body),
            }),
            17 => {
                let cond = self.boxed(depth, labels);
                self.within(Label::Loop, depth, labels, |_, body| Program::While(cond, body))
            }
            _ => Program::Await,
        }
    }

    fn boxed(&mut self, depth: usize, labels: &mut Vec<Label>) -> Box<Program> {
        Box::new(self.code(depth - 1, labels))
    }

    fn within(
        &mut self,
        label: Label,
        depth: usize,
        labels: &mut Vec<Label>,
        make: impl FnOnce(&mut Self, Box<Program>) -> Program,
    ) -> Program {
        labels.push(label);
        let body = self.boxed(depth, labels);
        labels.pop();
        make(self, body)
    }
}

/// The code as an expression in Rust.
fn source(code: &Program, depth: usize, out: &mut String) {
    let sub = |code: &Program, depth: usize| {
        let mut text = String::new();
        source(code, depth, &mut text);
        text
    };
    let text = match code {
        Program::Await => "a(cx).await".into(),
        Program::Try => "(x?)".into(),
        Program::Seq(parts) => {
            format!("{{ {} }}", parts.iter().map(|p| sub(p, depth) + "; ").collect::<String>())
        }
        Program::If(c, t, e) => {
            format!("(if {{ {} }} {{ {} }} else {{ {} }})", sub(c, depth), sub(t, depth), sub(e, depth))
        }
        Program::And(l, r) => format!("({{ {} }} && {{ {} }})", sub(l, depth), sub(r, depth)),
        Program::Match(arms) => {
            let arm = |(guard, body): &(Option<Program>, Program)| {
                let guard = guard.as_ref().map(|g| format!("if {{ {} }}", sub(g, depth))).unwrap_or_default();
                format!("_ {guard} => {{ {} }}", sub(body, depth))
            };
            format!("(match x {{ {} }})", arms.iter().map(arm).collect::<String>())
        }
        Program::Loop(body) => format!("('l{depth}: loop {{ {} }})", sub(body, depth + 1)),
        Program::For(body) => format!("('l{depth}: for i in x {{ {} }})", sub(body, depth + 1)),
        Program::While(c, body) => {
            format!("('l{depth}: while {{ {} }} {{ {} }})", sub(c, depth), sub(body, depth + 1))
        }
        Program::Block(body) => format!("('l{depth}: {{ {} }})", sub(body, depth + 1)),
        Program::Break(to) => format!("(break 'l{to})"),
        Program::Continue(to) => format!("(continue 'l{to})"),
        Program::Return => "(return)".into(),
        Program::LetElse(init) => {
            format!("{{ let Some(x) = ({{ {} }}) else {{ return }}; }}", sub(init, depth))
        }
    };
    out.push_str(&text);
}

/// One run: the awaits passed, in order.
struct Run<'a> {
    dice: &'a mut Dice,
    trace: Vec<u16>,
}

impl Run<'_> {
    /// `first` is the number of the first await in `code`.
    fn run(&mut self, code: &Program, first: u16, depth: usize) -> Result<(), Exit> {
        if self.trace.len() > 60 {
            return Err(Exit::Cut);
        }
        match code {
            Program::Await => self.trace.push(first),
            Program::Try if self.flip() => return Err(Exit::Return),
            Program::Try => {}
            Program::Seq(parts) => {
                let mut first = first;
                for part in parts {
                    self.run(part, first, depth)?;
                    first += awaits_in(part);
                }
            }
            Program::If(cond, then, otherwise) => {
                self.run(cond, first, depth)?;
                let first = first + awaits_in(cond);
                match self.flip() {
                    true => self.run(then, first, depth)?,
                    false => self.run(otherwise, first + awaits_in(then), depth)?,
                }
            }
            Program::And(left, right) => {
                self.run(left, first, depth)?;
                if self.flip() {
                    self.run(right, first + awaits_in(left), depth)?;
                }
            }
            Program::Match(arms) => self.arms(arms, first, depth)?,
            Program::Loop(body) => self.repeat(None, body, first, depth, false)?,
            Program::For(body) => self.repeat(None, body, first, depth, true)?,
            Program::While(cond, body) => self.repeat(Some(cond), body, first, depth, true)?,
            Program::Block(body) => match self.run(body, first, depth + 1) {
                Err(Exit::Break(to)) if to == depth => {}
                other => other?,
            },
            Program::Break(to) => return Err(Exit::Break(*to)),
            Program::Continue(to) => return Err(Exit::Continue(*to)),
            Program::Return => return Err(Exit::Return),
            Program::LetElse(init) => {
                self.run(init, first, depth)?;
                if self.flip() {
                    return Err(Exit::Return);
                }
            }
        }
        Ok(())
    }

    fn flip(&mut self) -> bool {
        self.dice.below(2) == 0
    }

    fn arms(
        &mut self,
        arms: &[(Option<Program>, Program)],
        mut first: u16,
        depth: usize,
    ) -> Result<(), Exit> {
        for (guard, body) in arms {
            let guarded = guard.as_ref().map_or(0, awaits_in);
            if self.flip() {
                guard.as_ref().map_or(Ok(()), |guard| self.run(guard, first, depth))?;
                if self.flip() {
                    return self.run(body, first + guarded, depth);
                }
            }
            first += guarded + awaits_in(body);
        }
        // No arm was taken: the model's pattern always fits in the last one.
        match arms.last() {
            Some((_, body)) => self.run(body, first - awaits_in(body), depth),
            None => Ok(()),
        }
    }

    fn repeat(
        &mut self,
        cond: Option<&Program>,
        body: &Program,
        first: u16,
        depth: usize,
        ends: bool,
    ) -> Result<(), Exit> {
        let tested = cond.map_or(0, awaits_in);
        for _ in 0..4 {
            cond.map_or(Ok(()), |cond| self.run(cond, first, depth))?;
            if ends && self.flip() {
                return Ok(());
            }
            match self.run(body, first + tested, depth + 1) {
                Err(Exit::Break(to)) if to == depth => return Ok(()),
                Err(Exit::Continue(to)) if to == depth => {}
                other => other?,
            }
        }
        Err(Exit::Cut)
    }
}

fn awaits_in(code: &Program) -> u16 {
    match code {
        Program::Await => 1,
        Program::Seq(parts) => parts.iter().map(awaits_in).sum(),
        Program::If(a, b, c) => awaits_in(a) + awaits_in(b) + awaits_in(c),
        Program::And(a, b) | Program::While(a, b) => awaits_in(a) + awaits_in(b),
        Program::Match(arms) => {
            arms.iter().map(|(guard, body)| guard.as_ref().map_or(0, awaits_in) + awaits_in(body)).sum()
        }
        Program::Loop(body) | Program::For(body) | Program::Block(body) | Program::LetElse(body) => {
            awaits_in(body)
        }
        Program::Try | Program::Break(_) | Program::Continue(_) | Program::Return => 0,
    }
}

#[test]
fn every_transition_of_a_run_has_an_edge() {
    for seed in 0..1000 {
        let mut dice = Dice(seed);
        let code = dice.code(5, &mut Vec::new());
        let mut text = String::from("{ ");
        source(&code, 0, &mut text);
        text.push_str("; }");
        let mut body: Block = syn::parse_str(&text).unwrap();
        let cx = Some(syn::parse_quote!(cx));
        let states =
            gate::insert_gates(&mut body, &syn::parse_quote!(aether), cx, &[], &mut Diagnostics::default());
        assert_eq!(states.len(), usize::from(awaits_in(&code)), "seed {seed}: {text}");
        let known: BTreeSet<(u16, u16)> = edges(&body, states.len()).iter().map(|e| (e.from, e.to)).collect();
        for _ in 0..200 {
            let mut run = Run { dice: &mut dice, trace: Vec::new() };
            let cut = matches!(run.run(&code, 0, 0), Err(Exit::Cut));
            let mut steps: Vec<u16> = std::iter::once(START).chain(run.trace).collect();
            if !cut {
                steps.push(END);
            }
            for pair in steps.windows(2) {
                assert!(known.contains(&(pair[0], pair[1])), "seed {seed}: {pair:?} is missing in {text}");
            }
        }
    }
}
