//! Random bodies are run by a model of Rust's control flow; every transition it makes must have an edge.

use super::*;
use crate::report::Diagnostics;

enum Code {
    Await,
    Try,
    Seq(Vec<Code>),
    If(Box<Code>, Box<Code>, Box<Code>),
    And(Box<Code>, Box<Code>),
    Match(Vec<(Option<Code>, Code)>),
    Loop(Box<Code>),
    While(Box<Code>, Box<Code>),
    For(Box<Code>),
    Block(Box<Code>),
    Break(usize),
    Continue(usize),
    Return,
    LetElse(Box<Code>),
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

    fn code(&mut self, depth: usize, labels: &mut Vec<Label>) -> Code {
        let leaf = depth == 0;
        match self.below(if leaf { 7 } else { 18 }) {
            0..=2 => Code::Await,
            3 => Code::Try,
            4 if !labels.is_empty() => Code::Break(self.below(labels.len())),
            5 if labels.contains(&Label::Loop) => {
                let loops: Vec<usize> = (0..labels.len()).filter(|at| labels[*at] == Label::Loop).collect();
                Code::Continue(loops[self.below(loops.len())])
            }
            6 => Code::Return,
            7..=9 => Code::Seq((0..=self.below(3)).map(|_| self.code(depth - 1, labels)).collect()),
            10 | 11 => {
                Code::If(self.boxed(depth, labels), self.boxed(depth, labels), self.boxed(depth, labels))
            }
            12 => Code::And(self.boxed(depth, labels), self.boxed(depth, labels)),
            13 => {
                let arms = (0..=self.below(3)).map(|_| {
                    let guard = (self.below(2) == 0).then(|| self.code(depth - 1, labels));
                    (guard, self.code(depth - 1, labels))
                });
                Code::Match(arms.collect())
            }
            14 => Code::LetElse(self.boxed(depth, labels)),
            15 => self.within(Label::Block, depth, labels, |_, body| Code::Block(body)),
            16 => self.within(Label::Loop, depth, labels, |dice, body| match dice.below(2) {
                0 => Code::Loop(body),
                _ => Code::For(body),
            }),
            17 => {
                let cond = self.boxed(depth, labels);
                self.within(Label::Loop, depth, labels, |_, body| Code::While(cond, body))
            }
            _ => Code::Await,
        }
    }

    fn boxed(&mut self, depth: usize, labels: &mut Vec<Label>) -> Box<Code> {
        Box::new(self.code(depth - 1, labels))
    }

    fn within(
        &mut self,
        label: Label,
        depth: usize,
        labels: &mut Vec<Label>,
        make: impl FnOnce(&mut Self, Box<Code>) -> Code,
    ) -> Code {
        labels.push(label);
        let body = self.boxed(depth, labels);
        labels.pop();
        make(self, body)
    }
}

/// The code as an expression in Rust.
fn source(code: &Code, depth: usize, out: &mut String) {
    let sub = |code: &Code, depth: usize| {
        let mut text = String::new();
        source(code, depth, &mut text);
        text
    };
    let text = match code {
        Code::Await => "a(cx).await".into(),
        Code::Try => "(x?)".into(),
        Code::Seq(parts) => {
            format!("{{ {} }}", parts.iter().map(|p| sub(p, depth) + "; ").collect::<String>())
        }
        Code::If(c, t, e) => {
            format!("(if {{ {} }} {{ {} }} else {{ {} }})", sub(c, depth), sub(t, depth), sub(e, depth))
        }
        Code::And(l, r) => format!("({{ {} }} && {{ {} }})", sub(l, depth), sub(r, depth)),
        Code::Match(arms) => {
            let arm = |(guard, body): &(Option<Code>, Code)| {
                let guard = guard.as_ref().map(|g| format!("if {{ {} }}", sub(g, depth))).unwrap_or_default();
                format!("_ {guard} => {{ {} }}", sub(body, depth))
            };
            format!("(match x {{ {} }})", arms.iter().map(arm).collect::<String>())
        }
        Code::Loop(body) => format!("('l{depth}: loop {{ {} }})", sub(body, depth + 1)),
        Code::For(body) => format!("('l{depth}: for i in x {{ {} }})", sub(body, depth + 1)),
        Code::While(c, body) => {
            format!("('l{depth}: while {{ {} }} {{ {} }})", sub(c, depth), sub(body, depth + 1))
        }
        Code::Block(body) => format!("('l{depth}: {{ {} }})", sub(body, depth + 1)),
        Code::Break(to) => format!("(break 'l{to})"),
        Code::Continue(to) => format!("(continue 'l{to})"),
        Code::Return => "(return)".into(),
        Code::LetElse(init) => format!("{{ let Some(x) = ({{ {} }}) else {{ return }}; }}", sub(init, depth)),
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
    fn run(&mut self, code: &Code, first: u16, depth: usize) -> Result<(), Exit> {
        if self.trace.len() > 60 {
            return Err(Exit::Cut);
        }
        match code {
            Code::Await => self.trace.push(first),
            Code::Try if self.flip() => return Err(Exit::Return),
            Code::Try => {}
            Code::Seq(parts) => {
                let mut first = first;
                for part in parts {
                    self.run(part, first, depth)?;
                    first += awaits_in(part);
                }
            }
            Code::If(cond, then, otherwise) => {
                self.run(cond, first, depth)?;
                let first = first + awaits_in(cond);
                match self.flip() {
                    true => self.run(then, first, depth)?,
                    false => self.run(otherwise, first + awaits_in(then), depth)?,
                }
            }
            Code::And(left, right) => {
                self.run(left, first, depth)?;
                if self.flip() {
                    self.run(right, first + awaits_in(left), depth)?;
                }
            }
            Code::Match(arms) => self.arms(arms, first, depth)?,
            Code::Loop(body) => self.repeat(None, body, first, depth, false)?,
            Code::For(body) => self.repeat(None, body, first, depth, true)?,
            Code::While(cond, body) => self.repeat(Some(cond), body, first, depth, true)?,
            Code::Block(body) => match self.run(body, first, depth + 1) {
                Err(Exit::Break(to)) if to == depth => {}
                other => other?,
            },
            Code::Break(to) => return Err(Exit::Break(*to)),
            Code::Continue(to) => return Err(Exit::Continue(*to)),
            Code::Return => return Err(Exit::Return),
            Code::LetElse(init) => {
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

    fn arms(&mut self, arms: &[(Option<Code>, Code)], mut first: u16, depth: usize) -> Result<(), Exit> {
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
        cond: Option<&Code>,
        body: &Code,
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

fn awaits_in(code: &Code) -> u16 {
    match code {
        Code::Await => 1,
        Code::Seq(parts) => parts.iter().map(awaits_in).sum(),
        Code::If(a, b, c) => awaits_in(a) + awaits_in(b) + awaits_in(c),
        Code::And(a, b) | Code::While(a, b) => awaits_in(a) + awaits_in(b),
        Code::Match(arms) => {
            arms.iter().map(|(guard, body)| guard.as_ref().map_or(0, awaits_in) + awaits_in(body)).sum()
        }
        Code::Loop(body) | Code::For(body) | Code::Block(body) | Code::LetElse(body) => awaits_in(body),
        Code::Try | Code::Break(_) | Code::Continue(_) | Code::Return => 0,
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
            awaits::gate(&mut body, &syn::parse_quote!(aether), cx, &[], &mut Diagnostics::default());
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
