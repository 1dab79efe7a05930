//! Known faults that can be put back, to see that the exploration finds them.
//!
//! Promise: without a choice none is on.

use std::sync::OnceLock;

/// A known fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name in the code.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// The rules of which one must be broken when it is put back.
    pub rules: &'static [&'static str],
    /// It is in the embedded store.
    pub file: bool,
}

const fn fault(name: &'static str, what: &'static str, rules: &'static [&'static str]) -> Fault {
    Fault { name, what, rules, file: false }
}

/// All known faults.
pub const ALL: &[Fault] = &[
    fault(
        "seen-is-read-late",
        "a run is suspended with messages counted as seen that came after its last poll",
        &["suspended-on-unread"],
    ),
    fault(
        "notified-after-unlocking",
        "a message counts as seen before its receivers are woken",
        &["suspended-on-unread"],
    ),
    fault(
        "released-once",
        "a run that cannot be released, because its store fails, keeps its owner",
        &["stuck-owned"],
    ),
    fault(
        "done-in-the-callers-future",
        "a call that is dropped half-way leaves a run that its owner does not advance",
        &["stuck-owned", "late"],
    ),
    fault("destructors-escape", "a destructor that panics ends the task that owns the run", &["stuck-owned"]),
    fault(
        "taken-is-lost",
        "a message that a losing branch has taken is received by nobody, or out of order",
        &["out-of-order", "stuck-unread-large"],
    ),
    fault(
        "launched-while-stopping",
        "runs that were just claimed are advanced after the shutdown has returned",
        &["body-after-shutdown"],
    ),
    fault(
        "a-new-command-ends-the-run",
        "during a shutdown a branch that begins a command ends its run, and with it the calls of other branches",
        &["cut-by-shutdown"],
    ),
    fault(
        "children-are-not-fenced",
        "a worker that lost a run starts a child of it",
        &["stale-parent-starts-child"],
    ),
    fault(
        "children-end-before-the-decision",
        "a worker that lost a run ends the run's children, by a decision that nobody else takes",
        &["stale-parent-ends-child"],
    ),
    fault(
        "leases-by-the-wall-clock",
        "a clock that is set forward costs a live worker its runs",
        &["in-doubt-after-leap"],
    ),
    fault(
        "reserves-without-comparing",
        "a run that reserves a store-wide key takes the place of whoever has reserved it meanwhile",
        &["two-bodies-for-one-key"],
    ),
    fault(
        "row-before-run",
        "whether a store-wide key is free is seen from its holder's row before the holder's run",
        &["two-bodies-for-one-key", "key-is-free"],
    ),
    fault(
        "undone-by-each-branch",
        "branches that undo at the same time each call what undoes a step, under names of their own",
        &["undone-twice"],
    ),
    fault(
        "goes-on-from-nothing",
        "who goes on with what a lost branch has begun to undo does not see what is recorded of it",
        &["begun-again", "asked-again", "stuck"],
    ),
    fault(
        "unwinding-waits-for-what-was-begun",
        "an unwinding undoes nothing before everything that was begun is asked for",
        &["stuck", "stuck-owned"],
    ),
    fault(
        "waits-are-not-asked-anew",
        "who goes on with an undoing call waits for a consent that nobody is asked for any more",
        &["stuck", "stuck-owned"],
    ),
    fault(
        "reports-between-waits-are-late",
        "a report that comes while a body is called again counts as one for the wait before",
        &["first-report-is-duplicate"],
    ),
    fault("probe-fails-its-run", "a probe that panics fails the run", &["unexpected-end"]),
    Fault {
        file: true,
        ..fault(
            "writes-are-not-kept",
            "what cannot be written while the file is locked is thrown away",
            &["in-doubt-after-fault"],
        )
    },
];

static ON: OnceLock<String> = OnceLock::new();

/// Puts a fault back, for this process.
pub fn put_back(fault: &str) {
    let _only_one = ON.set(fault.to_owned());
}

/// Whether this fault is put back.
pub fn is_on(fault: &str) -> bool {
    ON.get().is_some_and(|on| on == fault)
}
