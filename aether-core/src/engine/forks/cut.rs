//! Where a run is cut, and its bill there.
//!
//! Promise: reads the origin and changes nothing.

use crate::engine::forks::error::ForkError;
use crate::engine::inner::Inner;
use crate::journal::bill::Bill;
use crate::journal::cut::{Cut, CutError, Divided};
use crate::journal::event::{Event, RunCreated};
use crate::journal::frame::{JournalError, read_verified};
use crate::journal::generation::Generation;
use crate::journal::obligations::undoes_another;
use crate::store::error::StoreError;
use crate::store::ledger::{LedgerEntry, LedgerStatus, STORE_WIDE};
use crate::store::records::RunRecord;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{CommandId, RunId};

/// Where a run is to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CutAt {
    Start,
    Before(String),
    Failure,
    End,
}

/// A run to fork, as it stands in the store.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) record: RunRecord,
    pub(super) created: RunCreated,
    pub(super) events: Vec<Event>,
    pub(super) ledger: Vec<LedgerEntry>,
}

impl Origin {
    pub(super) async fn load(inner: &Inner, run: &RunId) -> Result<Self, ForkError> {
        let store = &*inner.shared.store;
        let journal = |error| ForkError::Journal { run: run.clone(), error };
        let unreadable = |position, reason: String| journal(JournalError::Unreadable { position, reason });
        // Before the journal: that of a run that has ended by then is whole.
        let Some(record) = store.run(run).await? else {
            return Err(StoreError::UnknownRun { run: run.clone() }.into());
        };
        let frames = store.load(run, 0).await?;
        let mut events = read_verified(&frames).map_err(journal)?;
        crate::store::read::fill(store, run, &frames, &mut events).await?;
        if let Some(at) = events.iter().position(|event| matches!(event, Event::Unknown { .. })) {
            let kind = events.get(at).map(Event::kind).unwrap_or_default();
            let reason = format!("this build does not know the kind `{kind}` and cannot copy it");
            return Err(unreadable(at as u64, reason));
        }
        let Some(Event::RunCreated(created)) = events.first() else {
            return Err(unreadable(0, "a journal begins with `run_created`".into()));
        };
        let (created, ledger) = (created.clone(), store.entries(run).await?);
        Ok(Self { record, created, events, ledger })
    }

    fn id(&self) -> &RunId {
        &self.record.id
    }

    /// Refuses a run that has continued as new: what it owes from earlier generations is not in its journal's commands, and
    /// a fork would lose it.
    pub(super) fn first_generation(&self) -> Result<(), ForkError> {
        match Generation::of(0, &self.events).number {
            0 => Ok(()),
            generation => Err(ForkError::LaterGeneration { run: self.id().clone(), generation }),
        }
    }

    /// Cuts the journal, and makes the bill.
    pub(super) fn divide(&self, at: &CutAt) -> Result<(Divided<'_>, Bill), ForkError> {
        let cut = match at {
            CutAt::Start => Cut::Start,
            CutAt::End => Cut::End,
            CutAt::Before(command) => Cut::Before(CommandId::from(command.clone())),
            CutAt::Failure => return self.before_failure(),
        };
        let (divided, bill) = self.cut(&cut)?;
        match self.earliest(&bill.undone) {
            None => Ok((divided, bill)),
            Some(earliest) => {
                let (run, earliest) = (self.id().clone(), self.outside_of_lost(earliest));
                Err(ForkError::UndoneBefore { run, calls: bill.undone, earliest })
            }
        }
    }

    fn cut(&self, cut: &Cut) -> Result<(Divided<'_>, Bill), ForkError> {
        let divided = Divided::of(&self.events, cut).map_err(|error| self.refused(cut, error))?;
        let bill = Bill::of(&divided);
        Ok((divided, bill))
    }

    fn refused(&self, cut: &Cut, error: CutError) -> ForkError {
        let run = self.id().clone();
        let command = match cut {
            Cut::Before(command) => command.clone(),
            Cut::Start | Cut::End => CommandId::new("0", ""),
        };
        match error {
            CutError::Unknown(near) => ForkError::NoSuchCommand { run, command: command.to_string(), near },
            CutError::Lost(race) => ForkError::LostRace { run, command, race },
            CutError::Compensation => ForkError::Compensation { run, command },
        }
    }

    /// The first of these commands in the journal.
    fn earliest(&self, commands: &[CommandId]) -> Option<CommandId> {
        let mut asked = self.events.iter().filter_map(Event::command);
        asked.find(|command| commands.contains(command)).cloned()
    }

    /// The command, or the race that its branch lost, the outermost one: inside of that there is no place to cut.
    fn outside_of_lost(&self, command: CommandId) -> CommandId {
        let mut at = command;
        // Each race is further out than the one before.
        while let Err(CutError::Lost(race)) = Divided::of(&self.events, &Cut::Before(at.clone())) {
            at = race;
        }
        at
    }

    fn before_failure(&self) -> Result<(Divided<'_>, Bill), ForkError> {
        if self.record.status != Status::Failed {
            return Err(ForkError::NotFailed { run: self.id().clone(), status: self.record.status });
        }
        let failed = self.failed().map_or(Cut::End, Cut::Before);
        let (mut divided, mut bill) = match self.cut(&failed) {
            Err(ForkError::LostRace { .. } | ForkError::Compensation { .. }) => self.cut(&Cut::End)?,
            cut => cut?,
        };
        // What was undone is made again. Each round cuts earlier, so that there is an end.
        while let Some(undone) = self.earliest(&bill.undone) {
            (divided, bill) = self.cut(&Cut::Before(self.outside_of_lost(undone)))?;
        }
        Ok((divided, bill))
    }

    /// The command whose error ended the run: the last one that failed, if its error is the run's or nothing was answered
    /// after it.
    fn failed(&self) -> Option<CommandId> {
        let message = self.events.iter().rev().find_map(|event| match event {
            Event::RunFailed(e) => Some(e.message.as_str()),
            _ => None,
        });
        let end = self.events.iter().position(|event| matches!(event, Event::RunUnwinding(_)));
        let body = self.events.get(..end.unwrap_or(self.events.len())).unwrap_or_default();
        let mut errors: Vec<(&CommandId, &str)> = Vec::new();
        let (mut failed, mut last) = (None, None);
        for event in body {
            let error = match event {
                Event::CommandCommitted(e) => e.error.as_ref(),
                Event::ToolInvocationFinished(e) => e.error.as_ref(),
                Event::TransactionFinished(e) => e.error.as_ref(),
                _ => None,
            };
            if let (Some(error), Some(command)) = (error, event.command()) {
                errors.push((command, error.as_str()));
            }
            if let Event::CommandCommitted(e) = event
                && !undoes_another(&e.command)
            {
                last = Some(&e.command);
                if !e.outcome.is_complete() {
                    failed = Some(&e.command);
                }
            }
        }
        let failed = failed?;
        let caused = |(command, error): &(&CommandId, &str)| {
            *command == failed && message.is_some_and(|message| names(error, message))
        };
        (last == Some(failed) || errors.iter().any(caused)).then(|| failed.clone())
    }
}

/// Whether the message of a run's end names the one in a step's recorded error, or the other way round.
fn names(error: &str, message: &str) -> bool {
    let Ok(error) = serde_json::from_str::<serde_json::Value>(error) else { return false };
    let mut open = vec![&error];
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::String(text) if text.len() > 3 && message.contains(text.as_str()) => {
                return true;
            }
            serde_json::Value::Array(values) => open.extend(values),
            serde_json::Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    false
}

/// Whether a row holds a business key that is unique in the whole store.
pub(super) fn holds_in_store(row: &LedgerEntry) -> bool {
    row.status != LedgerStatus::Failed
        && row.business_key.as_ref().is_some_and(|key| key.starts_with(STORE_WIDE))
}
