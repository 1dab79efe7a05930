//! Programs as data: trees that the workflow `interpret` executes, and how they are generated.
//!
//! Promise: every call of a generated program has a number of its own, so that no two calls have equal arguments
//! unless the program says so.

use aether::definition::OnUnknown;
use aether::error::FailureClass;
use proptest::collection::vec;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::steps::Kind;

/// Nodes that are executed one after the other.
pub(crate) type Block = Vec<Node>;

/// One thing that a program does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Node {
    /// Calls a step.
    Call(Call),
    /// Calls the irreversible step twice with the same arguments.
    Twice(Call),
    /// Goes one way or the other, on a value that was recorded before.
    IfLast(Block, Block),
    /// Goes one way or the other, on a random number.
    IfRandom(Block, Block),
    /// Executes a block so often.
    Repeat(u32, Block),
    /// An inline scope.
    Inline(Block),
    /// A run of its own.
    Child(Block),
    /// A run of its own, for the result of which the program waits when it has executed the other block.
    Start(Block, Block),
    /// A run of its own that the program leaves alone.
    Detach(Block),
    /// A plan: what a block tells.
    Plan(Block),
    /// Asks a person.
    Ask,
    Join(Block, Block),
    Race(Block, Block),
    /// Executes a block so often, side by side, so many at a time.
    Each(u32, usize, Block),
    /// Waits so many units.
    Sleep(u64),
    /// Waits for the signal of this number.
    Signal(u32),
    Now,
    Uuid,
}

/// One call of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct Call {
    /// Number in the program.
    pub(crate) id: u32,
    /// Which turn of the loops around it this is.
    pub(crate) salt: u32,
    pub(crate) kind: Kind,
    /// How the attempts end; every later one with a value.
    pub(crate) script: Vec<Ending>,
    /// How it ends when a key is sent again; every later time with a value.
    pub(crate) again: Vec<Ending>,
    /// What the probe or the operator says about an attempt in doubt, or a person who is asked for consent.
    pub(crate) word: Word,
    /// Whether an error ends the block.
    pub(crate) strict: bool,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) enum Ending {
    Value,
    Failure(Class),
    /// The body says that it does not know.
    Unknown {
        happened: bool,
    },
    /// The body never comes back.
    Hang {
        happened: bool,
    },
    Panic,
}

/// Classes of definite failures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) enum Class {
    Unclassified,
    Retryable,
    Permanent,
    Compensatable,
}

impl From<Class> for FailureClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Unclassified => Self::Unclassified,
            Class::Retryable => Self::Retryable,
            Class::Permanent => Self::Permanent,
            Class::Compensatable => Self::Compensatable,
        }
    }
}

/// What is said about an attempt in doubt, or about a call that needs consent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) enum Word {
    /// What is so; yes.
    Truth,
    /// That it cannot be told; no.
    Nothing,
    /// The probe itself fails; an operator gives up; yes, with other arguments.
    Failure,
}

impl Call {
    /// The value of a successful attempt.
    pub(crate) fn value(&self, attempt: u32) -> i64 {
        i64::from(self.id) * 10 + i64::from(attempt)
    }

    /// The call that undoes this one.
    pub(crate) fn undoing(&self) -> Self {
        Self { kind: Kind::Refund, script: Vec::new(), again: Vec::new(), ..self.clone() }
    }

    /// The call that is made where a person must agree to it: another one than was asked for, or none.
    pub(crate) fn agreed(&self) -> Option<Self> {
        match (self.kind, self.word) {
            (Kind::Approved, Word::Nothing) => None,
            (Kind::Approved, Word::Failure) => Some(Self { script: Vec::new(), ..self.clone() }),
            _ => Some(self.clone()),
        }
    }

    /// How attempt `attempt` ends when its key is sent for the first time.
    pub(crate) fn ending(&self, attempt: u32) -> Ending {
        let scripted = self.script.get(attempt as usize).copied().unwrap_or(Ending::Value);
        match scripted {
            // Nobody watches the clock of a body that changes nothing.
            Ending::Hang { .. } if !self.kind.changes_world() => Ending::Value,
            scripted => scripted,
        }
    }

    /// How sending number `sending` of the key of an attempt ends, from 1.
    pub(crate) fn ending_of(&self, attempt: u32, sending: u32) -> Ending {
        match sending.checked_sub(2) {
            Some(again) if self.kind.changes_world() => {
                self.again.get(again as usize).copied().unwrap_or(Ending::Value)
            }
            _ => self.ending(attempt),
        }
    }

    /// The message of a definite failure.
    pub(crate) fn message(&self, attempt: u32) -> String {
        format!("{} failed at attempt {attempt}", self.id)
    }
}

/// A part of a program, as a workflow gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) block: Block,
    pub(crate) salt: u32,
    /// Milliseconds that a unit of waiting takes.
    pub(crate) unit: u64,
}

impl Part {
    /// The same program's other block.
    pub(crate) fn of(&self, block: &Block) -> Self {
        Self { block: block.clone(), ..self.clone() }
    }

    /// Like [`Part::of`], in turn `turn` of a loop.
    pub(crate) fn turn(&self, block: &Block, turn: u32) -> Self {
        Self { salt: self.salt * 10 + turn + 1, ..self.of(block) }
    }
}

impl Node {
    /// The blocks inside of it.
    fn blocks(&self) -> Vec<&Block> {
        match self {
            Self::Call(_) | Self::Twice(_) | Self::Sleep(_) | Self::Signal(_) => Vec::new(),
            Self::Ask | Self::Now | Self::Uuid => Vec::new(),
            Self::Repeat(_, block) | Self::Inline(block) | Self::Each(_, _, block) => vec![block],
            Self::Child(block) | Self::Detach(block) | Self::Plan(block) => vec![block],
            Self::IfLast(a, b) | Self::IfRandom(a, b) | Self::Start(a, b) => vec![a, b],
            Self::Join(a, b) | Self::Race(a, b) => vec![a, b],
        }
    }

    fn blocks_mut(&mut self) -> Vec<&mut Block> {
        match self {
            Self::Call(_) | Self::Twice(_) | Self::Sleep(_) | Self::Signal(_) => Vec::new(),
            Self::Ask | Self::Now | Self::Uuid => Vec::new(),
            Self::Repeat(_, block) | Self::Inline(block) | Self::Each(_, _, block) => vec![block],
            Self::Child(block) | Self::Detach(block) | Self::Plan(block) => vec![block],
            Self::IfLast(a, b) | Self::IfRandom(a, b) | Self::Start(a, b) => vec![a, b],
            Self::Join(a, b) | Self::Race(a, b) => vec![a, b],
        }
    }
}

/// Whether `wanted` holds of a node of the program.
fn holds_a(block: &Block, wanted: fn(&Node) -> bool) -> bool {
    block.iter().any(|node| wanted(node) || node.blocks().into_iter().any(|block| holds_a(block, wanted)))
}

/// Tells whether somebody outside must answer questions, send signals or report.
pub(crate) fn needs_operator(block: &Block) -> bool {
    holds_a(block, |node| match node {
        Node::Call(call) | Node::Twice(call) => {
            matches!(call.kind, Kind::Approved | Kind::CalledBack) || call.kind.on_unknown() == OnUnknown::Ask
        }
        node => matches!(node, Node::Signal(_) | Node::Ask),
    })
}

/// Tells whether a run may outlive the program's.
pub(crate) fn leaves_runs_alone(block: &Block) -> bool {
    holds_a(block, |node| matches!(node, Node::Detach(_)))
}

/// Where a process dies. Numbers are parts of 65,536 of what the undisturbed run counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Point {
    /// Instead of a write.
    BeforeWrite(u16),
    /// When a write is durable, and nobody knows.
    AfterWrite(u16),
    /// Instead of a write to the effect store.
    BeforeEffect(u16),
    /// When a write to the effect store is durable, and nobody knows.
    AfterEffect(u16),
    /// In a call of a body.
    Body(u16, Moment),
}

/// An instant in a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moment {
    /// It has done nothing yet.
    Before,
    /// It has changed what it changes.
    In,
    /// It has come back, and nobody knows.
    After,
}

/// A program, and the deaths of the processes that execute it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) block: Block,
    /// One for each process but the last.
    pub(crate) points: Vec<Point>,
    /// From which the durations of bodies are drawn, anew in each process; 0 for none.
    pub(crate) tempo: u64,
    /// Of the entropy.
    pub(crate) seed: u64,
    /// Bytes over which a value goes to the effect store.
    pub(crate) inline: usize,
}

fn ending() -> impl Strategy<Value = Ending> {
    let class = prop_oneof![
        Just(Class::Unclassified),
        Just(Class::Retryable),
        Just(Class::Permanent),
        Just(Class::Compensatable)
    ];
    prop_oneof![
        4 => Just(Ending::Value),
        3 => class.prop_map(Ending::Failure),
        1 => any::<bool>().prop_map(|happened| Ending::Unknown { happened }),
        1 => any::<bool>().prop_map(|happened| Ending::Hang { happened }),
        1 => Just(Ending::Panic),
    ]
}

/// How a key that is sent again ends.
fn again() -> impl Strategy<Value = Ending> {
    prop_oneof![
        2 => Just(Ending::Value),
        2 => Just(Ending::Failure(Class::Retryable)),
        1 => Just(Ending::Failure(Class::Unclassified)),
        1 => Just(Ending::Failure(Class::Permanent)),
        1 => any::<bool>().prop_map(|happened| Ending::Unknown { happened }),
        1 => Just(Ending::Panic),
    ]
}

fn call(transactions: bool) -> impl Strategy<Value = Call> {
    let word = prop_oneof![4 => Just(Word::Truth), 1 => Just(Word::Nothing), 1 => Just(Word::Failure)];
    // A key within the store outlives its run: a fork cannot make the call again, which programs do not tell.
    let kinds = Kind::ALL.iter().copied().filter(|kind| *kind != Kind::OnceInStore);
    let kinds = kinds.filter(|kind| transactions || *kind != Kind::Booked);
    let kind = proptest::sample::select(kinds.collect::<Vec<_>>());
    let script = prop_oneof![3 => Just(Vec::new()), 2 => vec(ending(), 1..4)];
    let again = prop_oneof![1 => Just(Vec::new()), 1 => vec(again(), 1..3)];
    (kind, script, again, word, prop::bool::weighted(0.2)).prop_map(|(kind, script, again, word, strict)| {
        Call { id: 0, salt: 0, kind, script, again, word, strict }
    })
}

/// A call whose failure ends its run, or at least its block's.
fn broken() -> impl Strategy<Value = Node> {
    let script = Just(vec![Ending::Failure(Class::Permanent)]);
    (call(false), script)
        .prop_map(|(call, script)| Node::Call(Call { kind: Kind::Read, script, strict: true, ..call }))
}

fn leaf(transactions: bool) -> impl Strategy<Value = Node> {
    prop_oneof![
        12 => call(transactions).prop_map(Node::Call),
        1 => call(transactions).prop_map(|call| Node::Twice(Call { kind: Kind::Once, ..call })),
        2 => call(false).prop_map(|call| Node::Call(Call { kind: Kind::Compensated, ..call })),
        1 => broken(),
        1 => (0..20u64).prop_map(Node::Sleep),
        1 => (0..3u32).prop_map(Node::Signal),
        1 => Just(Node::Ask),
        1 => Just(Node::Now),
        1 => Just(Node::Uuid),
    ]
}

fn block(transactions: bool) -> impl Strategy<Value = Block> {
    let node = leaf(transactions).prop_recursive(3, 14, 3, |node| {
        let block = || vec(node.clone(), 0..4);
        prop_oneof![
            1 => (block(), block()).prop_map(|(a, b)| Node::IfLast(a, b)),
            1 => (block(), block()).prop_map(|(a, b)| Node::IfRandom(a, b)),
            1 => (0..3u32, block()).prop_map(|(times, block)| Node::Repeat(times, block)),
            1 => block().prop_map(Node::Inline),
            2 => block().prop_map(Node::Child),
            1 => (block(), block()).prop_map(|(child, meanwhile)| Node::Start(child, meanwhile)),
            1 => block().prop_map(Node::Detach),
            1 => block().prop_map(Node::Plan),
            2 => (block(), block()).prop_map(|(a, b)| Node::Join(a, b)),
            2 => (block(), block()).prop_map(|(a, b)| Node::Race(a, b)),
            2 => (0..4u32, 1..4usize, block()).prop_map(|(items, limit, block)| Node::Each(items, limit, block)),
        ]
    });
    vec(node, 1..5).prop_map(|mut block| {
        number(&mut block, &mut 0);
        block
    })
}

/// Gives every call a number.
fn number(block: &mut Block, next: &mut u32) {
    for node in block {
        if let Node::Call(call) | Node::Twice(call) = node {
            *next += 1;
            call.id = *next;
        }
        node.blocks_mut().into_iter().for_each(|block| number(block, next));
    }
}

fn point() -> impl Strategy<Value = Point> {
    let moment = prop_oneof![Just(Moment::Before), Just(Moment::In), Just(Moment::After)];
    prop_oneof![
        any::<u16>().prop_map(Point::BeforeWrite),
        any::<u16>().prop_map(Point::AfterWrite),
        any::<u16>().prop_map(Point::BeforeEffect),
        any::<u16>().prop_map(Point::AfterEffect),
        (any::<u16>(), moment).prop_map(|(part, moment)| Point::Body(part, moment)),
    ]
}

/// Any case; one with transaction steps if the store runs them.
pub(crate) fn case(transactions: bool) -> impl Strategy<Value = Case> {
    let tempo = prop_oneof![1 => Just(0), 4 => any::<u64>()];
    // Nothing is large, everything is, values of two digits are not, answers of steps are not.
    let inline = prop_oneof![3 => Just(64 << 10), 2 => Just(0), 1 => Just(2), 1 => Just(80)];
    (block(transactions), vec(point(), 1..4), tempo, any::<u64>(), inline)
        .prop_map(|(block, points, tempo, seed, inline)| Case { block, points, tempo, seed, inline })
}
