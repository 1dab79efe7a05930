//! The plan of a fork: its bill, and what is decided about each call on it.
//!
//! Promise: a decision that is not possible is an error at the start, and never another decision.

use std::fmt;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::engine::forks::cut::{CutAt, Origin, holds_in_store};
use crate::engine::forks::error::ForkError;
use crate::engine::inner::Engine;
use crate::journal::bill::BilledCall;
use crate::journal::event::forked::ForkDecision;
use crate::store::ledger::LedgerEntry;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{Position, RunId};
use crate::vocabulary::payload::{Payload, PayloadError, hex};

/// What becomes of an origin that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OpenOrigin {
    /// It is not forked.
    #[default]
    Refuse,
    /// It runs on beside its fork, and both act.
    LeaveRunning,
    /// It is terminated first, for this reason: nothing of it is undone.
    Terminate(String),
}

/// What a fork would do, of [`Engine::fork`] or [`Engine::retry`]. Displays its bill, a line for each call.
#[must_use = "a plan does nothing before it is started"]
#[derive(Clone, Debug)]
pub struct ForkPlan {
    pub(super) engine: Engine,
    pub(super) origin: RunId,
    pub(super) at: CutAt,
    pub(super) retry: bool,
    pub(super) position: Position,
    pub(super) status: Status,
    pub(super) calls: Vec<BilledCall>,
    pub(super) id: Option<String>,
    pub(super) open: OpenOrigin,
    pub(super) answers: Vec<(String, Result<Payload, PayloadError>)>,
    /// The first decision that is not possible.
    pub(super) refused: Option<ForkError>,
    ledger: Vec<LedgerEntry>,
}

impl ForkPlan {
    /// The plan for `origin`, with nothing decided.
    pub(super) fn make(engine: &Engine, origin: &Origin, at: CutAt, retry: bool) -> Result<Self, ForkError> {
        origin.first_generation()?;
        let (divided, bill) = origin.divide(&at)?;
        Ok(Self {
            engine: engine.clone(),
            position: divided.position,
            status: origin.record.status,
            calls: bill.calls,
            origin: origin.record.id.clone(),
            at,
            retry,
            id: None,
            open: OpenOrigin::default(),
            answers: Vec::new(),
            refused: None,
            ledger: origin.ledger.clone(),
        })
    }

    /// The run that is forked.
    pub fn origin(&self) -> &RunId {
        &self.origin
    }

    /// The cut: the position in the origin's journal from which on nothing is copied.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The bill: every call behind the cut that may have changed the world, in the order in which they were begun.
    pub fn calls(&self) -> &[BilledCall] {
        &self.calls
    }

    /// The calls about which something must still be decided.
    pub fn undecided(&self) -> impl Iterator<Item = &BilledCall> {
        self.calls.iter().filter(|call| call.decision.is_none() && call.needs_decision())
    }

    /// What ties a start to this very bill, for one that is shown now and started later: a short text that is another one
    /// where the cut is elsewhere, or a call on the bill is another one or has another outcome.
    pub fn shown(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        part(self.origin.as_str());
        part(&self.position.to_string());
        for call in &self.calls {
            part(call.command.as_str());
            part(call.outcome.as_str());
            part(call.digest.as_ref().map_or("", |digest| digest.as_str()));
            part(call.key.as_ref().map_or("", |key| key.as_str()));
        }
        let digest = hex(&hash.finalize());
        digest.get(..24).unwrap_or(&digest).to_owned()
    }

    /// Keeps the outcome of a call: when the fork asks for the same call, the same step with the same arguments, it gets
    /// the recorded outcome and nothing is called. A child run that is still open is waited for.
    pub fn keep(self, command: impl AsRef<str>) -> Self {
        self.decide(command.as_ref(), ForkDecision::Keep)
    }

    /// Lets the fork make a call again, under a key of its own. An irreversible call is made again only when it is named
    /// here.
    pub fn again(self, command: impl AsRef<str>) -> Self {
        self.decide(command.as_ref(), ForkDecision::Again)
    }

    /// Undoes a call before the fork begins, by the step that its own step declares with `compensate`. It is made again if
    /// the fork asks for it.
    pub fn undo_first(self, command: impl AsRef<str>) -> Self {
        self.decide(command.as_ref(), ForkDecision::UndoFirst)
    }

    /// Keeps the outcome of every undecided call that has one.
    pub fn keep_all(mut self) -> Self {
        for call in self.calls.iter_mut().filter(|call| call.decision.is_none() && call.needs_decision()) {
            if call.can_keep() {
                call.decision = Some(ForkDecision::Keep);
            }
        }
        self
    }

    /// Undoes every undecided call first that can be undone.
    pub fn undo_all_first(mut self) -> Self {
        for call in self.calls.iter_mut().filter(|call| call.decision.is_none() && call.can_undo()) {
            call.decision = Some(ForkDecision::UndoFirst);
        }
        self
    }

    /// Lets the fork make every undecided call again that is not irreversible.
    pub fn again_all(mut self) -> Self {
        let again = |call: &BilledCall| {
            let open = call.decision.is_none() && call.needs_decision() && !call.irreversible;
            open && self.refuses(call, ForkDecision::Again).is_none()
        };
        let again: Vec<_> = self.calls.iter().map(again).collect();
        for (call, _) in self.calls.iter_mut().zip(again).filter(|(_, again)| *again) {
            call.decision = Some(ForkDecision::Again);
        }
        self
    }

    /// Replaces the recorded answer of a command before the cut, such as that of a model or a tool, by `value`, in the form
    /// in which the journal has it.
    pub fn answer<T: Serialize>(mut self, command: impl Into<String>, value: &T) -> Self {
        let redaction = &self.engine.inner.shared.redaction;
        let value = Payload::encode(value).map(|value| redaction.value(value));
        self.answers.push((command.into(), value));
        self
    }

    /// Names the fork. Without it, the id is that of the origin with a number: `claim-7~fork-1`, and `claim-7~2` for a
    /// retry.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Lets an origin that has not ended run on: both act from now on. The steps before the cut stay the origin's to undo.
    pub fn leave_origin_running(mut self) -> Self {
        self.open = OpenOrigin::LeaveRunning;
        self
    }

    /// Terminates an origin that has not ended, before the fork is made; nothing of it is undone. A fork that is refused as
    /// the origin is then ends nothing. Calls that it had in flight are on the bill once it has ended, and need a decision:
    /// where none was made about them, the origin has ended and the fork is refused.
    pub fn end_origin(mut self, reason: impl Into<String>) -> Self {
        self.open = OpenOrigin::Terminate(reason.into());
        self
    }

    fn decide(mut self, command: &str, decision: ForkDecision) -> Self {
        let decided = self.named(command).and_then(|at| {
            let Some(call) = self.calls.get(at) else { return Ok(at) };
            let Some(why) = self.refuses(call, decision) else { return Ok(at) };
            let (run, command) = (self.origin.clone(), call.command.clone());
            Err(ForkError::CannotDecide { run, command, decision, why })
        });
        match decided {
            Ok(at) => self.calls.iter_mut().skip(at).take(1).for_each(|call| call.decision = Some(decision)),
            Err(refused) => drop(self.refused.get_or_insert(refused)),
        }
        self
    }

    /// The call of this name on the bill: its command, with `#` and a number where several have it.
    fn named(&self, name: &str) -> Result<usize, ForkError> {
        let names: Vec<_> = (0..self.calls.len()).map(|at| self.name(at)).collect();
        let run = self.origin.clone();
        if let Some(at) = names.iter().position(|known| known == name) {
            return Ok(at);
        }
        let of = |at: &usize| self.calls.get(*at).is_some_and(|call| call.command.as_str() == name);
        let alike: Vec<_> = (0..names.len()).filter(of).filter_map(|at| names.get(at).cloned()).collect();
        if alike.is_empty() {
            let calls = self.calls.iter().map(|call| call.command.clone()).collect();
            return Err(ForkError::NotBilled { run, command: name.into(), calls });
        }
        Err(ForkError::Ambiguous { run, command: name.into(), names: alike })
    }

    /// How the call at this place of the bill is named in a decision.
    fn name(&self, at: usize) -> String {
        let Some(call) = self.calls.get(at) else { return String::new() };
        let same = |other: &&BilledCall| other.command == call.command;
        match self.calls.iter().filter(same).count() {
            0 | 1 => call.command.to_string(),
            _ => format!("{}#{}", call.command, self.calls.iter().take(at + 1).filter(same).count()),
        }
    }

    /// Why a decision is not possible for a call.
    fn refuses(&self, call: &BilledCall, decision: ForkDecision) -> Option<&'static str> {
        let command = &call.command;
        let held = || self.ledger.iter().any(|row| row.command == *command && holds_in_store(row));
        let own = |child: &RunId| !child.as_str().ends_with(&format!("/{command}"));
        // Of older journals. A call of the other step would get this outcome.
        let ambiguous = || {
            let linked = self.engine.inner.shared.steps.values();
            let named = linked.filter(|step| step.def.name == call.step()).count();
            call.path.is_none() && call.child.is_none() && named > 1
        };
        match decision {
            ForkDecision::Keep if call.can_keep() && ambiguous() => {
                Some("several steps have its name, and the journal does not say which one it was")
            }
            ForkDecision::Keep if call.can_keep() => None,
            ForkDecision::Keep => Some("it has no outcome that could be kept"),
            ForkDecision::UndoFirst if call.can_undo() => None,
            ForkDecision::UndoFirst => Some("it was not made, or its step declares nothing that undoes it"),
            ForkDecision::Again if held() => {
                Some("its business key is unique in the store, and this call holds it")
            }
            ForkDecision::Again if call.child.as_ref().is_some_and(own) => {
                Some("the child run has an id of its own, which a second one cannot have")
            }
            ForkDecision::Again => None,
        }
    }

    /// Takes the decisions of an older plan over.
    pub(super) fn with_decisions(mut self, older: &Self) -> Self {
        for call in &mut self.calls {
            // What was decided is valid for what was shown.
            let same = |known: &&BilledCall| {
                (&known.command, &known.digest, &known.key, known.outcome)
                    == (&call.command, &call.digest, &call.key, call.outcome)
            };
            call.decision = older.calls.iter().find(same).and_then(|known| known.decision);
        }
        self.id.clone_from(&older.id);
        self.open.clone_from(&older.open);
        self.answers.clone_from(&older.answers);
        self
    }

    /// The first decision that is not possible, or the calls that are undecided.
    pub(super) fn check(&self) -> Result<(), ForkError> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        for call in &self.calls {
            if let Some(decision) = call.decision
                && let Some(why) = self.refuses(call, decision)
            {
                let (run, command) = (self.origin.clone(), call.command.clone());
                return Err(ForkError::CannotDecide { run, command, decision, why });
            }
        }
        let calls: Vec<_> = self.undecided().cloned().collect();
        if calls.is_empty() { Ok(()) } else { Err(ForkError::Undecided { run: self.origin.clone(), calls }) }
    }
}

impl fmt::Display for ForkPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "fork of run `{}`, cut at event {}", self.origin, self.position)?;
        for (at, call) in self.calls.iter().enumerate() {
            write!(f, "  {}  {}  {}", self.name(at), call.class, call.outcome)?;
            if call.irreversible {
                write!(f, "  irreversible")?;
            }
            if let Some(child) = &call.child {
                write!(f, "  run {child}")?;
            }
            match call.decision {
                Some(decision) => writeln!(f, "  -> {decision}")?,
                None if call.needs_decision() => writeln!(f, "  -> undecided")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
