//! The schemas of what `--json` prints, by the name of the command.

use schemars::{Schema, schema_for};

use crate::output::code::{Check, Graph, Verdicts};
use crate::output::errors::ErrorReport;
use crate::output::files::{
    Copied, Diagnosis, EvidenceOutcome, Exported, Imported, Integrity, Migrated, Pruned, StoreReport,
};
use crate::output::queues::{LimitDeed, LimitList, QueueList, ScheduleDeed, ScheduleList};
use crate::output::runs::{Ends, History, Ledger, RunList, RunReport, StreamLine};
use crate::output::steering::{ForkOutcome, Retried, Steered};
use crate::output::waits::WaitList;

/// Every schema, with the command that prints it.
pub(crate) fn schemas() -> Vec<(&'static str, Schema)> {
    vec![
        ("runs list", schema_for!(RunList)),
        ("runs show", schema_for!(RunReport)),
        ("runs history", schema_for!(History)),
        ("runs wait", schema_for!(Ends)),
        ("runs cancel", schema_for!(Steered)),
        ("runs terminate", schema_for!(Steered)),
        ("runs retry", schema_for!(ForkOutcome)),
        ("runs fork", schema_for!(ForkOutcome)),
        ("runs retry many", schema_for!(Retried)),
        ("start", schema_for!(Steered)),
        ("inbox list", schema_for!(WaitList)),
        ("inbox show", schema_for!(WaitList)),
        ("inbox approve", schema_for!(Steered)),
        ("inbox reject", schema_for!(Steered)),
        ("inbox answer", schema_for!(Steered)),
        ("inbox resolve", schema_for!(Steered)),
        ("inbox confirm", schema_for!(Steered)),
        ("signal", schema_for!(Steered)),
        ("queues list", schema_for!(QueueList)),
        ("queues limit list", schema_for!(LimitList)),
        ("queues limit set", schema_for!(LimitDeed)),
        ("queues limit remove", schema_for!(LimitDeed)),
        ("schedules list", schema_for!(ScheduleList)),
        ("schedules pause", schema_for!(ScheduleDeed)),
        ("schedules resume", schema_for!(ScheduleDeed)),
        ("schedules trigger", schema_for!(Steered)),
        ("ledger", schema_for!(Ledger)),
        ("streams tail", schema_for!(StreamLine)),
        ("graph", schema_for!(Graph)),
        ("verify", schema_for!(Verdicts)),
        ("check", schema_for!(Check)),
        ("export", schema_for!(Exported)),
        ("import", schema_for!(Imported)),
        ("db status", schema_for!(StoreReport)),
        ("db migrate", schema_for!(Migrated)),
        ("db prune", schema_for!(Pruned)),
        ("db backup", schema_for!(Copied)),
        ("db restore", schema_for!(Copied)),
        ("db check", schema_for!(Integrity)),
        ("evidence export", schema_for!(EvidenceOutcome)),
        ("evidence verify", schema_for!(EvidenceOutcome)),
        #[cfg(feature = "web")]
        ("web", schema_for!(crate::output::files::ConsoleAddress)),
        #[cfg(feature = "web")]
        ("dev", schema_for!(crate::output::files::ConsoleAddress)),
        ("doctor", schema_for!(Diagnosis)),
        ("error", schema_for!(ErrorReport)),
    ]
}
