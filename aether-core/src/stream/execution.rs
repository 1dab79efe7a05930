//! One physical execution of a body, as far as streams are concerned, and what the executions of a claim leave open.
//!
//! Promise: once it is over or has lost something, that stays so.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use crate::sched::{AtomicBool, Mutex};
use crate::vocabulary::id::{CommandId, Epoch, RunId};

/// One physical execution of a body, as far as streams are concerned.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) run: RunId,
    pub(crate) epoch: Epoch,
    pub(crate) command: CommandId,
    pub(crate) attempt: u32,
    /// What is sent from now on is dropped: it has ended, or another worker has the run. Set under the lock of the hub.
    pub(crate) over: AtomicBool,
    /// Something that it sent was lost, so that the rest does not count.
    pub(crate) lost: AtomicBool,
    /// It has sent something.
    sent: AtomicBool,
    open: Arc<OpenCommands>,
    /// What it has written to each stream, since it sent something that counts.
    parts: Mutex<BTreeMap<Arc<str>, Parts>>,
}

/// What an execution has written to a stream.
#[derive(Debug)]
struct Parts {
    /// Its number among the executions of an engine that wrote something; another one after it took back what it sent.
    execution: u64,
    /// Number of the next chunk.
    next: u32,
}

impl Execution {
    pub(crate) fn new(
        run: RunId,
        epoch: Epoch,
        command: CommandId,
        attempt: u32,
        open: Arc<OpenCommands>,
    ) -> Arc<Self> {
        let (over, lost, sent) = (false.into(), false.into(), false.into());
        Arc::new(Self { run, epoch, command, attempt, over, lost, sent, open, parts: Mutex::default() })
    }

    /// The number of the execution, and that of its next chunk in this stream. `executions` counts those that began.
    pub(crate) fn next_part(&self, stream: &Arc<str>, executions: &mut u64) -> (u64, u32) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = parts.entry(Arc::clone(stream)).or_insert_with(|| {
            *executions += 1;
            Parts { execution: *executions, next: 0 }
        });
        let part = parts.next;
        parts.next = part.saturating_add(1);
        (parts.execution, part)
    }

    /// What it wrote to this stream does not count: the next chunk takes its place.
    pub(crate) fn begin_again(&self, stream: &str) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).remove(stream);
    }

    /// It sends something to a stream, under the lock of the hub; says whether that counts.
    pub(super) fn sends(self: &Arc<Self>) -> bool {
        if self.over.load(Ordering::Acquire) || self.lost.load(Ordering::Acquire) {
            return false;
        }
        if !self.sent.swap(true, Ordering::AcqRel) {
            self.open.insert(self);
        }
        true
    }

    /// Whether it has sent something to a stream.
    pub(crate) fn has_sent(&self) -> bool {
        self.sent.load(Ordering::Acquire)
    }

    /// The streams that it has written to and that count; none where something was lost.
    pub(crate) fn streams(&self) -> Vec<String> {
        if self.lost.load(Ordering::Acquire) {
            return Vec::new();
        }
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.keys().map(|stream| stream.to_string()).collect()
    }
}

/// The newest execution of a command in this claim that has sent something, if there is one.
#[derive(Debug, Default)]
struct Sending {
    attempt: u32,
    execution: Weak<Execution>,
}

/// The commands of a claim that have sent something to streams of which no append has said yet what becomes of it.
#[derive(Debug, Default)]
pub(crate) struct OpenCommands(Mutex<BTreeMap<CommandId, Sending>>);

impl OpenCommands {
    /// Those that an earlier claim has left.
    pub(crate) fn of(left: Vec<CommandId>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(left.into_iter().map(|command| (command, Sending::default())).collect())))
    }

    fn insert(&self, execution: &Arc<Execution>) {
        let sending = Sending { attempt: execution.attempt, execution: Arc::downgrade(execution) };
        self.with(|open| open.insert(execution.command.clone(), sending));
    }

    /// An append says what becomes of what this command has sent.
    pub(crate) fn close(&self, command: &CommandId) {
        self.with(|open| open.remove(command));
    }

    /// Whether this command has sent something of which nothing is said yet.
    pub(crate) fn contains(&self, command: &CommandId) -> bool {
        self.with(|open| open.contains_key(command))
    }

    /// All of them that `of` holds for, with their newest attempt of this claim. They send nothing from here on.
    pub(crate) fn stop(&self, of: impl Fn(&CommandId) -> bool) -> Vec<(CommandId, u32)> {
        self.with(|open| {
            let stopped = open.iter().filter(|(command, _)| of(command)).map(|(command, sending)| {
                let execution = sending.execution.upgrade();
                execution.iter().for_each(|execution| execution.over.store(true, Ordering::Release));
                (command.clone(), sending.attempt)
            });
            stopped.collect()
        })
    }

    fn with<T>(&self, with: impl FnOnce(&mut BTreeMap<CommandId, Sending>) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
