//! Concurrency inside a run: `join` and `race`, whose branches get child scopes.
//!
//! Promise: the ids of commands in a branch depend on the branch's number, never on the order in which branches are
//! polled or finish. The branches of a join begin in their order, before one of them is answered. A race is decided once, in the
//! journal; on replay only the winner is polled.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::maybe_done;

use crate::journal::event::{Event, RaceDecided};
use crate::journal::history::record::RecordedResult;
use crate::perform::known_at_end::{Damaged, known_of};
use crate::run::claim::Run;
use crate::run::matcher::Matched;
use crate::run::won::WonRace;
use crate::vocabulary::id::CommandId;
use crate::vocabulary::outcome::EffectClass;
use crate::workflow::context::{Cx, too_deep_fault};
use crate::workflow::gate::{Effect, WorkflowCode};
use crate::workflow::ticket::Ticket;

/// Gives branches their scopes.
#[derive(Debug)]
pub struct Fork {
    pub(super) parent: Cx,
    too_deep: bool,
}

impl Fork {
    pub(crate) fn branch(&self, kind: char, number: usize) -> Cx {
        let path = format!("{}.{kind}{number}", self.parent.path());
        self.parent.scope(path, self.parent.def(), self.parent.marks())
    }

    pub(crate) async fn check(&self) {
        if self.too_deep {
            too_deep_fault(&self.parent.run).await
        }
    }
}

/// A tuple of two to eight branches that run concurrently; each is an `async |cx: &mut Cx| ..` closure.
#[diagnostic::on_unimplemented(
    message = "`cx.join` takes a tuple of two to eight branches",
    label = "not a tuple of `async |cx: &mut Cx| ..` closures",
    note = "for a list of items use `cx.each(items, async |cx: &mut Cx, item| ..)`"
)]
pub trait Branches {
    /// The branches' values, in their order.
    type Output;
    #[doc(hidden)]
    fn run(self, fork: Fork) -> impl Future<Output = Self::Output>;
}

/// A branch of [`Cx::race`]: it borrows what it reads, and changes only what is its own. A replay polls the winner alone, so
/// what a losing branch had changed outside of itself would be missing then. Implemented for every branch that is `Clone`: a
/// closure that borrows a variable mutably is not.
#[diagnostic::on_unimplemented(
    message = "[AE0123] a branch of `cx.race` changes a variable that is not its own, or owns a value that is not `Clone`",
    label = "not a branch of a race",
    note = "a replay polls only the winner, and what a losing branch changed before it lost is missing then: return the value from the branch, and change the variable behind the await",
    note = "a branch may own a value only if that is `Clone`: borrow it in the branch, or derive `Clone` for its type"
)]
pub trait Racer {}

#[diagnostic::do_not_recommend]
impl<F: Clone> Racer for F {}

/// A tuple of two to eight branches with values of one type, of which the first to finish wins.
#[diagnostic::on_unimplemented(
    message = "`cx.race` takes a tuple of two to eight branches with values of one type",
    label = "not a tuple of `async |cx: &mut Cx| ..` closures of one type"
)]
pub trait Racers {
    /// The winner's value.
    type Output;
    #[doc(hidden)]
    fn run(self, fork: Fork, only: Option<usize>) -> impl Future<Output = (usize, Self::Output)>;
    #[doc(hidden)]
    const COUNT: usize;
}

macro_rules! tuples {
    ($($count:literal: $($branch:ident $value:ident $number:tt),+;)*) => {$(
        impl<$($branch, $value),+> Branches for ($($branch,)+)
        where $($branch: AsyncFnOnce(&mut Cx) -> $value),+
        {
            type Output = ($($value,)+);
            #[allow(non_snake_case)]
            async fn run(self, fork: Fork) -> Self::Output {
                fork.check().await;
                $(
                    let mut cx = fork.branch('b', $number);
                    let branch = self.$number;
                    let mut $branch = pin!(maybe_done(WorkflowCode::of(cx.log_scope(), async move { branch(&mut cx).await })));
                )+
                let mut begun = false;
                poll_fn(|w| {
                    if !std::mem::replace(&mut begun, true) {
                        let _beginning = fork.parent.run.begin_branches();
                        $(let _answered_behind_it = $branch.as_mut().poll(w);)+
                    }
                    let mut done = true;
                    $(done &= $branch.as_mut().poll(w).is_ready();)+
                    if done { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                loop {
                    if let ($(Some($value),)+) = ($($branch.as_mut().take_output(),)+) {
                        return ($($value,)+);
                    }
                    // Every branch is done, and outputs are taken once: this is not reached.
                    std::future::pending::<()>().await;
                }
            }
        }

        impl<T, $($branch),+> Racers for ($($branch,)+)
        where $($branch: AsyncFnOnce(&mut Cx) -> T + Racer),+
        {
            type Output = T;
            const COUNT: usize = $count;
            #[allow(non_snake_case)]
            async fn run(self, fork: Fork, only: Option<usize>) -> (usize, T) {
                fork.check().await;
                $(
                    let mut cx = fork.branch('b', $number);
                    let branch = self.$number;
                    let mut $branch = pin!(WorkflowCode::of(cx.log_scope(), async move { branch(&mut cx).await }));
                )+
                poll_fn(|w| {
                    $(
                        if only.is_none_or(|only| only == $number)
                            && let Poll::Ready(value) = $branch.as_mut().poll(w)
                        {
                            return Poll::Ready(($number, value));
                        }
                    )+
                    Poll::Pending
                })
                .await
            }
        }
    )*};
}

tuples! {
    2: A VA 0, B VB 1;
    3: A VA 0, B VB 1, C VC 2;
    4: A VA 0, B VB 1, C VC 2, D VD 3;
    5: A VA 0, B VB 1, C VC 2, D VD 3, E VE 4;
    6: A VA 0, B VB 1, C VC 2, D VD 3, E VE 4, F VF 5;
    7: A VA 0, B VB 1, C VC 2, D VD 3, E VE 4, F VF 5, G VG 6;
    8: A VA 0, B VB 1, C VC 2, D VD 3, E VE 4, F VF 5, G VG 6, H VH 7;
}

impl Cx {
    pub(crate) fn fork(&mut self, name: &str) -> (Ticket<'_>, Fork) {
        let def = self.def();
        let limit = self.run.shared.limits.depth;
        let run = Arc::clone(&self.run);
        let ticket = self.ticket(name);
        let path = ticket.command.place().to_owned();
        let too_deep = path.split('.').count() > limit;
        let marks = ticket.marks.clone();
        let parent = Cx::below(run, ticket.children.clone(), def, path, marks);
        (ticket, Fork { parent, too_deep })
    }

    /// Runs branches concurrently and waits for all of them.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # async fn workflow(cx: &mut Cx) {
    /// let (a, b) = cx.join((async |cx: &mut Cx| cx.random().await, async |cx: &mut Cx| cx.uuid().await)).await;
    /// # }
    /// ```
    pub fn join<B: Branches>(&mut self, branches: B) -> Effect<impl Future<Output = B::Output>> {
        let (mut ticket, fork) = self.fork("join");
        let running = branches.run(fork);
        Effect::new(async move {
            ticket.enter().await;
            running.await
        })
    }

    /// Runs branches concurrently until the first one finishes; the others are dropped. The winner is recorded, so a replay
    /// has the same one. A world-changing call that a losing branch has in flight stays in the ledger, in doubt, unless its
    /// outcome is known: the SQL of a transaction that is with the store is waited for.
    ///
    /// ```
    /// # use aether_core::workflow::Cx;
    /// # use aether_core::failure::Result;
    /// # use std::time::Duration;
    /// # async fn fetch(_: &mut Cx, _: &str) -> Result<String> { Ok(String::new()) }
    /// # async fn workflow(cx: &mut Cx) {
    /// let answer = cx
    ///     .race((
    ///         async |cx: &mut Cx| fetch(cx, "mirror 1").await.ok(),
    ///         async |cx: &mut Cx| {
    ///             cx.sleep(Duration::from_secs(30)).await;
    ///             None
    ///         },
    ///     ))
    ///     .await;
    /// # }
    /// ```
    pub fn race<R: Racers>(&mut self, racers: R) -> Effect<impl Future<Output = R::Output>> {
        let (mut ticket, fork) = self.fork("race");
        Effect::new(async move {
            let site = ticket.enter().await;
            let (run, command) = (Arc::clone(&ticket.run), ticket.command.clone());
            match run.request(&command, EffectClass::Pure, None, site).await {
                Matched::Answered => {
                    // Only the winner is polled: the losers' results are not in history, or are no longer wanted.
                    let winner = recorded_winner(&run, &command).await;
                    let (_, value) = racers.run(fork, Some(winner)).await;
                    // History holds the race's own answer after the winner's, so it is taken after them.
                    run.next_delivery(&command).await;
                    value
                }
                Matched::Begun(_) | Matched::New => {
                    // Nothing is decided in the journal: all branches are polled, after a crash too. The first to
                    // finish now wins, which need not be the branch that was ahead before the crash.
                    let (winner, value) = racers.run(fork, None).await;
                    let deciding = run.deciding.begin();
                    let losers = losers(&command, winner, R::COUNT);
                    // What a branch that lost had recorded and was not asked for is no sign of other code.
                    run.forget(&losers);
                    let race = WonRace { command, winner, losers };
                    run.note_won(race.clone());
                    run.wait_to_decide(&race.command).await;
                    decide(&run, &race).await;
                    drop(deciding);
                    value
                }
            }
        })
    }
}

/// The winner of a decided race. Does not take the race's answer yet, because the winner's own answers come first.
async fn recorded_winner(run: &Run, command: &CommandId) -> usize {
    let answer = run.peek(command);
    let number = match &answer {
        Some(RecordedResult::Race(winner)) => {
            winner.rsplit_once(".b").and_then(|(_, number)| number.parse().ok())
        }
        _ => None,
    };
    match number {
        Some(number) => number,
        None => run.mismatched(command, EffectClass::Pure, answer).await,
    }
}

fn branch_scope(race: &CommandId, number: usize) -> String {
    format!("{}.b{number}", race.place())
}

/// The scopes of the branches that lost.
fn losers(race: &CommandId, winner: usize, count: usize) -> Vec<String> {
    (0..count).filter(|number| *number != winner).map(|number| branch_scope(race, number)).collect()
}

/// Records the winner, and what became of what the losers have in flight: in this process, or in a former one that died
/// before the race was decided. What is known of it counts and can be undone; the rest is abandoned. Where the run is cut off
/// meanwhile, whoever releases it does this again.
pub(crate) async fn decide(run: &Arc<Run>, race: &WonRace) {
    let WonRace { command, winner, losers } = race;
    // The losers are dropped by now, so none of them starts another call between the list of what they have in flight and
    // the append that abandons it.
    let _in_flight = run.in_flight();
    let mut known = known_of(run, Damaged::Stops, |command| run.is_lost_with(command, losers)).await;
    known.extras.stored.extend(run.store_large(&known.events).await);
    let (mut abandoned, extras) = match run.abandon_lost(losers, &known.commands()).await {
        Ok(abandoned) => abandoned,
        Err(fault) => return run.stop(fault).await,
    };
    // One append: a crash leaves either an open race whose calls can still be resolved, or a decided one whose losers'
    // calls are in doubt. What the workflow does with the winner's value is appended after it.
    // What is known not to have been executed is said before: the decision counts what losers had reserved of budgets as
    // spent.
    let uncalled = abandoned.iter().take_while(|event| matches!(event, Event::InvocationResolved(_))).count();
    let decided = RaceDecided { command: command.clone(), winner: branch_scope(command, *winner) };
    abandoned.insert(uncalled, decided.into());
    known.events.append(&mut abandoned);
    run.append(known.events, extras.behind(known.extras));
    run.note_decided(race);
}
