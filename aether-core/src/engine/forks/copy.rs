//! What the journal of a fork begins with: the copied events, and what was decided.
//!
//! Promise: a copied event is the origin's, byte for byte in what a replay reads, except where an answer was replaced.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::forks::answer::replace;
use crate::engine::forks::cut::Origin;
use crate::engine::forks::error::ForkError;
use crate::engine::forks::plan::{ForkPlan, OpenOrigin};
use crate::journal::bill::BilledCall;
use crate::journal::cut::Divided;
use crate::journal::event::forked::{ForkDecision, ForkedFrom};
use crate::journal::event::{Event, ForkDecided, RunCreated};
use crate::journal::obligations::Obligations;
use crate::perform::business_key::key_in_fork;
use crate::store::ledger::{LedgerEntry, LedgerStatus};
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, IdempotencyKey, RunId};
use crate::vocabulary::queue::StartTerms;

/// Prefix of the keys of a fork's copied ledger rows. No command has such a place, so the fork makes no call under them.
fn copied_keys(fork: &RunId) -> String {
    format!("aether:{fork}:copied:")
}

/// A fork as it is to be written.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) created: RunCreated,
    pub(super) events: Vec<Event>,
    pub(super) ledger: Vec<LedgerEntry>,
}

impl ForkPlan {
    /// The journal and the ledger rows with which the fork `id` begins.
    pub(super) fn copy(
        &self,
        origin: &Origin,
        divided: &Divided<'_>,
        id: &RunId,
        actor: &str,
        seed: String,
    ) -> Result<Copied, ForkError> {
        let from = ForkedFrom { run: self.origin.clone(), position: self.position, actor: actor.into() };
        // In the queue of the origin; its times are over.
        let given = origin.created.terms.clone();
        let terms = StartTerms { not_before: None, expires_at: None, parent_life: None, ..given };
        let created =
            RunCreated { seed, parent: None, forked_from: Some(from), terms, ..origin.created.clone() };
        let changed = |resource: &str, id: &str| {
            let mut changed = self.calls.iter().flat_map(|call| &call.changed);
            changed.any(|changed| changed.resource == resource && changed.id == id)
        };
        let mut events = divided.copied(changed);
        let takes_over = self.takes_over(origin.record.status);
        if !takes_over {
            // But for what was undone before the cut: the fork comes to that again, and must find it so.
            let obligations = Obligations::fold(&events);
            let is_undone = |command: &CommandId| {
                obligations.compensation_of(command).is_some_and(|step| !step.is_open())
            };
            events.retain(|event| match event {
                Event::CompensationRecorded(e) => is_undone(&e.command),
                _ => true,
            });
        }
        for (command, value) in &self.answers {
            replace(&mut events, &self.origin, command, value)?;
        }
        events.extend(self.calls.iter().filter_map(|call| decided(call, takes_over)).map(Event::from));
        events.insert(0, created.clone().into());
        let ledger = self.rows(origin, divided, id);
        Ok(Copied { created, events, ledger })
    }

    /// Rows of the calls that the fork copies or keeps, which hold their business keys there too.
    fn rows(&self, origin: &Origin, divided: &Divided<'_>, id: &RunId) -> Vec<LedgerEntry> {
        let copied: BTreeSet<&CommandId> = divided
            .events()
            .filter_map(|(at, event)| event.command().filter(|command| divided.holds(at, command)))
            .collect();
        // Where the origin is a fork itself, the call of its own origin's that a command took over.
        let taken: BTreeMap<&CommandId, &CommandId> = divided
            .events()
            .filter_map(|(_, event)| match event {
                Event::OutcomeKept(e) => Some((&e.origin, &e.command)),
                _ => None,
            })
            .collect();
        let prefix = copied_keys(&self.origin);
        let holds = |row: &&LedgerEntry| {
            let taken = taken.get(&row.command).filter(|_| row.key.as_str().starts_with(&prefix));
            let command = taken.copied().unwrap_or(&row.command);
            copied.contains(command) || self.is_kept(command)
        };
        origin.ledger.iter().filter(holds).filter_map(|row| self.row(row, id)).collect()
    }

    fn is_kept(&self, command: &CommandId) -> bool {
        self.calls.iter().any(|call| call.command == *command && call.decision == Some(ForkDecision::Keep))
    }

    /// Whether the steps before the cut are the fork's to undo, should it not succeed: not those of a run that succeeded,
    /// nor those of one that still runs and may undo them itself.
    fn takes_over(&self, status: Status) -> bool {
        self.open != OpenOrigin::LeaveRunning && status != Status::Completed
    }

    /// One such row; `None` where it holds no business key within its run.
    fn row(&self, row: &LedgerEntry, id: &RunId) -> Option<LedgerEntry> {
        let business_key = row.business_key.as_ref().filter(|_| row.status != LedgerStatus::Failed)?;
        let business_key = key_in_fork(business_key, self.origin.as_str(), id.as_str())?;
        Some(LedgerEntry {
            key: IdempotencyKey::from(format!("{}{}", copied_keys(id), row.key)),
            run: id.clone(),
            business_key: Some(business_key),
            ..row.clone()
        })
    }
}

/// What was decided about a call, as the fork records it.
fn decided(call: &BilledCall, takes_over: bool) -> Option<ForkDecided> {
    let decision = call.decision?;
    let digest = call.digest.clone()?;
    let keep = decision == ForkDecision::Keep;
    let undo = call.undo.clone().filter(|_| decision == ForkDecision::UndoFirst || keep && takes_over);
    let (undo, undo_args) = undo.unzip();
    Some(ForkDecided {
        origin: call.command.clone(),
        decision,
        class: call.class,
        path: call.path.clone(),
        digest,
        args: call.asked.clone().filter(|_| keep),
        irreversible: call.irreversible,
        outcome: call.recorded,
        result: call.result.clone().filter(|_| keep),
        error: call.error.clone().filter(|_| keep),
        key: call.key.clone(),
        child: call.child.clone(),
        undo,
        undo_args,
        changed: if keep { call.changed.clone() } else { Vec::new() },
    })
}
