//! Known faults that can be put back, to see that the exploration finds them.
//!
//! Promise: without a choice none is on.

use std::sync::OnceLock;

/// Each known fault: its name in the core, what it does, and the rules of which one must be broken when it is put back.
pub const ALL: &[(&str, &str, &[&str])] = &[
    (
        "seen-is-read-late",
        "a run is suspended with messages counted as seen that came after its last poll",
        &["suspended-on-unread"],
    ),
    (
        "notified-after-unlocking",
        "a message counts as seen before its receivers are woken",
        &["suspended-on-unread"],
    ),
    (
        "released-once",
        "a run that cannot be released, because its store fails, keeps its owner",
        &["stuck-owned"],
    ),
    (
        "done-in-the-callers-future",
        "a call that is dropped half-way leaves a run that its owner does not advance",
        &["stuck-owned", "late"],
    ),
    ("destructors-escape", "a destructor that panics ends the task that owns the run", &["stuck-owned"]),
    (
        "taken-is-lost",
        "a message that a losing branch has taken is received by nobody, or out of order",
        &["out-of-order", "stuck-unread-large"],
    ),
    (
        "launched-while-stopping",
        "runs that were just claimed are advanced after the shutdown has returned",
        &["body-after-shutdown"],
    ),
    (
        "a-new-command-ends-the-run",
        "during a shutdown a branch that begins a command ends its run, and with it the calls of other branches",
        &["cut-by-shutdown"],
    ),
    (
        "children-are-not-fenced",
        "a worker that lost a run starts a child of it",
        &["stale-parent-starts-child"],
    ),
    (
        "leases-by-the-wall-clock",
        "a clock that is set forward costs a live worker its runs",
        &["in-doubt-after-leap"],
    ),
    ("probe-fails-its-run", "a probe that panics fails the run", &["unexpected-end"]),
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
