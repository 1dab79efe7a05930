//! The workflows of the chaos, and what each of them must return.
//!
//! Every word of a result tells of one call or one message. A call whose outcome nobody knows is a word with a question
//! mark: the judge asks whether there was a cause.

use std::time::Duration;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

use super::world::World;

macro_rules! steps {
    ($($policy:ident $name:ident [$($option:tt)*])*) => {
        /// What happens to a call of unknown outcome.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Policy { $($policy,)* }

        impl Policy {
            pub(super) const ALL: &[Self] = &[$(Self::$policy,)*];

            /// Name of the step that has it.
            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$policy => stringify!($name),)* }
            }
        }

        $(
            /// Does what its arguments say.
            #[step($($option)*)]
            async fn $name(cx: &mut StepCx, value: u32, ms: u64) -> Result<u32> {
                World::act(cx, Policy::$policy, value, Duration::from_millis(ms)).await
            }
        )*
    };
}

steps! {
    Read chaos_read [effect = "read"]
    Never chaos_never [effect = "tool"]
    Ask chaos_ask [effect = "tool", on_unknown = "ask"]
    Retry chaos_retry [effect = "tool", on_unknown = "retry", idempotent]
    Probe chaos_probe [effect = "tool", on_unknown = "probe", probe = look]
    Consent chaos_consent [effect = "tool", approval = "required"]
}

impl Policy {
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    pub(super) fn changes_world(self) -> bool {
        self != Self::Read
    }
}

/// Looks at the world.
async fn look(cx: &mut StepCx, value: u32, ms: u64) -> Result<Probe<u32>> {
    let _ = ms;
    let happened = cx.dep::<World>()?.happened(cx.idempotency_key().as_str());
    Ok(if happened { Probe::Happened(super::world::made(value)) } else { Probe::DidNotHappen })
}

/// A message.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(super) struct Letter {
    id: String,
    body: String,
}

impl Letter {
    pub(super) fn new(id: &str, size: usize) -> Self {
        Self { id: id.to_owned(), body: "x".repeat(size) }
    }

    fn word(&self) -> String {
        format!("{} {}", self.id, self.body.len())
    }
}

/// The letters that a run of [`chaos_listen`] gets, by topic.
pub(super) const LETTERS: [(&str, &[(&str, usize)]); 2] =
    [("a", &[("a0", 10), ("a1", 70_000), ("a2", 100)]), ("b", &[("b0", 70_000), ("b1", 20)])];

/// What one call did.
fn word(name: &str, result: std::result::Result<u32, StepError>) -> Result<String> {
    match result {
        Ok(value) => Ok(format!("{name} {value}")),
        Err(StepError::InDoubt(_)) => Ok(format!("{name} ?")),
        Err(other) => Err(other.into()),
    }
}

fn span(n: u32, factor: u32, most: u32) -> u64 {
    u64::from(n.wrapping_mul(factor) % most)
}

/// Two calls of every policy.
#[workflow]
async fn chaos_errand(cx: &mut Cx, n: u32) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for n in [n, n.wrapping_add(7)] {
        words.push(word("never", chaos_never(cx, n, span(n, 37, 500)).await)?);
        words.push(word("read", chaos_read(cx, n, 10).await)?);
        words.push(word("retry", chaos_retry(cx, n, span(n, 53, 800)).await)?);
        words.push(word("probe", chaos_probe(cx, n, span(n, 71, 800)).await)?);
        words.push(word("ask", chaos_ask(cx, n, span(n, 91, 500)).await)?);
    }
    Ok(words)
}

/// A slow call beside short reads, and a race.
#[workflow]
async fn chaos_fork(cx: &mut Cx, n: u32) -> Result<Vec<String>> {
    let (slow, reads) = cx
        .join((
            async |cx: &mut Cx| word("slow", chaos_never(cx, n, 600 + span(n, 13, 1200)).await),
            async |cx: &mut Cx| {
                let mut words = Vec::new();
                for i in 0..6 {
                    words.push(word("read", chaos_read(cx, n.wrapping_add(i), 20).await)?);
                }
                words.push(word("probe", chaos_probe(cx, n, span(n, 41, 1500)).await)?);
                Ok::<_, Failure>(words)
            },
        ))
        .await;
    let first = cx
        .race((
            async |cx: &mut Cx| word("read", chaos_read(cx, n, 60).await),
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_millis(60)).await;
                Ok("nap".to_owned())
            },
        ))
        .await?;
    let mut words = reads?;
    words.push(slow?);
    words.push(first);
    Ok(words)
}

/// Two children at once, and a call.
#[workflow]
async fn chaos_family(cx: &mut Cx, n: u32) -> Result<Vec<String>> {
    let children =
        cx.each([0_u32, 1], async |cx: &mut Cx, i| cx.child::<chaos_errand>(n.wrapping_add(i)).await).await;
    let mut words = Vec::new();
    for child in children {
        words.extend(child?);
    }
    words.push(word("retry", chaos_retry(cx, n, span(n, 29, 1500)).await)?);
    Ok(words)
}

/// Letters: one that is waited for, one that races against a timer, one that has a time limit, and two more.
#[workflow]
async fn chaos_listen(cx: &mut Cx, n: u32) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let letter: Letter = cx.signal("a").await?;
    words.push(letter.word());
    let raced: Option<Letter> = cx
        .race((
            async |cx: &mut Cx| cx.signal("b").await.map(Some),
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_millis(40)).await;
                Ok(None)
            },
        ))
        .await?;
    let letter = match raced {
        Some(letter) => letter,
        None => cx.signal("b").await?,
    };
    words.push(letter.word());
    let limited: std::result::Result<Letter, _> = cx.signal("a").timeout(Duration::from_millis(60)).await;
    let letter = match limited {
        Ok(letter) => letter,
        Err(StepError::TimedOut(_)) => cx.signal("a").await?,
        Err(other) => return Err(other.into()),
    };
    words.push(letter.word());
    words.push(word("retry", chaos_retry(cx, n, 80).await)?);
    let letter: Letter = cx.signal("b").await?;
    words.push(letter.word());
    for i in 0..4 {
        words.push(word("read", chaos_read(cx, n.wrapping_add(i), 20).await)?);
    }
    let letter: Letter = cx.signal("a").await?;
    words.push(letter.word());
    Ok(words)
}

/// Calls that somebody must agree to, and others between them.
#[workflow]
async fn chaos_agreed(cx: &mut Cx, n: u32) -> Result<Vec<String>> {
    let mut words = vec![word("consent", chaos_consent(cx, n, 60).await)?];
    for i in 0..5 {
        words.push(word("read", chaos_read(cx, n.wrapping_add(i), 20).await)?);
    }
    words.push(word("retry", chaos_retry(cx, n, 40).await)?);
    words.push(word("probe", chaos_probe(cx, n, 200).await)?);
    words.push(word("never", chaos_never(cx, n, 40).await)?);
    words.push(word("consent", chaos_consent(cx, n, 0).await)?);
    Ok(words)
}

/// Calls between two waits.
#[workflow]
async fn chaos_nap(cx: &mut Cx, n: u32) -> Result<Vec<String>> {
    cx.sleep(Duration::from_millis(span(n, 17, 1500))).await;
    let first = word("never", chaos_never(cx, n, span(n, 23, 900)).await)?;
    cx.sleep(Duration::from_millis(200)).await;
    let second = word("ask", chaos_ask(cx, n, span(n, 19, 900)).await)?;
    let mut words = vec![first, second];
    for i in 0..4 {
        words.push(word("read", chaos_read(cx, n.wrapping_add(i), 20).await)?);
    }
    words.push(word("retry", chaos_retry(cx, n, span(n, 31, 400)).await)?);
    words.push(word("probe", chaos_probe(cx, n, span(n, 43, 400)).await)?);
    Ok(words)
}

/// Takes one letter, and waits until it is cancelled.
#[workflow]
async fn chaos_endless(cx: &mut Cx, n: u32) -> Result<Vec<String>> {
    let letter: Letter = cx.signal("a").await?;
    let called = word("never", chaos_never(cx, n, 30).await)?;
    let never: Letter = cx.signal("never").await?;
    Ok(vec![letter.word(), called, never.word()])
}

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Errand,
    Fork,
    Family,
    Listen,
    Agreed,
    Nap,
    Endless,
}

impl Flow {
    pub(super) const ALL: [Self; 7] =
        [Self::Errand, Self::Fork, Self::Family, Self::Listen, Self::Agreed, Self::Nap, Self::Endless];

    /// Name of the workflow.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Errand => "chaos_errand",
            Self::Fork => "chaos_fork",
            Self::Family => "chaos_family",
            Self::Listen => "chaos_listen",
            Self::Agreed => "chaos_agreed",
            Self::Nap => "chaos_nap",
            Self::Endless => "chaos_endless",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flow| flow.name() == name)
    }

    pub(super) async fn start(
        self,
        engine: &Engine,
        run: &str,
        n: u32,
    ) -> std::result::Result<(), aether::error::StartError> {
        match self {
            Self::Errand => engine.start::<chaos_errand>(n).id(run).await.map(drop),
            Self::Fork => engine.start::<chaos_fork>(n).id(run).await.map(drop),
            Self::Family => engine.start::<chaos_family>(n).id(run).await.map(drop),
            Self::Listen => engine.start::<chaos_listen>(n).id(run).await.map(drop),
            Self::Agreed => engine.start::<chaos_agreed>(n).id(run).await.map(drop),
            Self::Nap => engine.start::<chaos_nap>(n).id(run).await.map(drop),
            Self::Endless => engine.start::<chaos_endless>(n).id(run).await.map(drop),
        }
    }

    /// The words of a run that completes. `|` separates what may stand there.
    pub(super) fn words(self, n: u32) -> Vec<String> {
        let call = |name: &str, n: u32| format!("{name} {}", super::world::made(n));
        let round = |n: u32| ["never", "read", "retry", "probe", "ask"].map(|name| call(name, n));
        let errand = |n: u32| [round(n), round(n.wrapping_add(7))].concat();
        let reads = |count: u32| (0..count).map(|i| call("read", n.wrapping_add(i))).collect::<Vec<_>>();
        match self {
            Self::Errand => errand(n),
            Self::Fork => {
                let mut words = reads(6);
                words.extend([call("probe", n), call("slow", n), format!("{}|nap", call("read", n))]);
                words
            }
            Self::Family => [errand(n), errand(n.wrapping_add(1)), vec![call("retry", n)]].concat(),
            Self::Listen => {
                let first = ["a0 10", "b0 70000", "a1 70000", &call("retry", n), "b1 20"].map(str::to_owned);
                [first.to_vec(), reads(4), vec!["a2 100".to_owned()]].concat()
            }
            Self::Agreed => {
                let calls = ["retry", "probe", "never", "consent"].map(|name| call(name, n));
                [vec![call("consent", n)], reads(5), calls.to_vec()].concat()
            }
            Self::Nap => {
                let first = ["never", "ask"].map(|name| call(name, n)).to_vec();
                [first, reads(4), ["retry", "probe"].map(|name| call(name, n)).to_vec()].concat()
            }
            Self::Endless => Vec::new(),
        }
    }
}
