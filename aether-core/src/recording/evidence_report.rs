//! The check of evidence, and what it found.
//!
//! Promise: needs the file alone, and does not end at the first thing that does not hold; nothing that the hash chain does not
//! cover is taken for the history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::journal::encoded::{key_of, may_decode_to};
use crate::journal::event::{Event, RunCreated};
use crate::journal::frame::{Chained, StoredFrame, unhex};
use crate::journal::large_values::references;
use crate::recording::decided::{EvidenceDecision, ReadFrame, read_frames};
use crate::recording::evidence::{Evidence, EvidenceFrame, EvidenceReplay, value};
use crate::recording::file::RowPart;
use crate::store::recorded_calls::RecordedCalls;
use crate::store::run_head::RunHead;
use crate::vocabulary::contract::Status;
use crate::vocabulary::id::{Position, RunId};
use crate::vocabulary::one_line::one_line;
use crate::vocabulary::payload::hex;

/// What a check of evidence found: the result of [`Evidence::verify`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EvidenceReport {
    /// The run. Its id is compared with the keys of its calls; where it made none, the history does not name it.
    pub run: RunId,
    /// Its workflow.
    pub workflow: String,
    /// How it stood.
    pub status: String,
    /// Position of the first event: more than 0 for a run that continued as new.
    pub begins: Position,
    /// Number of frames whose hash follows from those before.
    pub frames: u64,
    /// Number of events in them.
    pub events: u64,
    /// Large values with the hash under which the journal names them.
    pub values: u64,
    /// Frames behind a payload codec: what they say in plain text is a claim of who made the file.
    pub encoded: u64,
    /// Hash of the whole history, 64 hexadecimal digits. Compare it with one that was noted when it was made.
    pub tip: String,
    /// What people decided, from the text that the hash chain covers; where that is encoded, from what who made the file
    /// claims that it says, and then it is marked so.
    pub decisions: Vec<EvidenceDecision>,
    /// What the replay said when the file was made: a claim of who made it.
    pub replay: EvidenceReplay,
    /// What does not hold.
    pub problems: Vec<String>,
}

impl EvidenceReport {
    /// Whether all of it holds.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// The report, line by line. What is in them comes from the file, and may hold anything.
    pub fn lines(&self) -> Vec<String> {
        let Self { run, workflow, status, begins, frames, events, values, encoded, tip, .. } = self;
        let mut lines = vec![
            format!(
                "run `{run}` of `{workflow}`, {status}: {events} events in {frames} frames, {values} large values"
            ),
            format!("history {tip}"),
        ];
        if *begins > 0 {
            lines.push(format!("it begins at event {begins}: the run continued as new there"));
        }
        lines.extend(self.decisions.iter().map(|decision| {
            let EvidenceDecision { at, kind, actor, command, claimed, .. } = decision;
            let of = command.as_ref().map_or_else(String::new, |command| format!(" for `{command}`"));
            let claimed = if *claimed { ", as claimed" } else { "" };
            format!("{at}  {kind} by {actor:?}{of}{claimed}")
        }));
        if *encoded > 0 {
            lines.push(format!(
                "{encoded} frames are encoded; their plain text is a claim of who made the file"
            ));
        }
        let EvidenceReplay { fits, verdict } = &self.replay;
        lines.push(format!("replay, as claimed: {}: {verdict}", if *fits { "fits" } else { "does not fit" }));
        lines.extend(self.problems.iter().map(|problem| format!("DOES NOT HOLD: {problem}")));
        lines
    }
}

impl fmt::Display for EvidenceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.lines().iter().map(|line| one_line(line)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Evidence {
    /// Computes the hash chain again, and compares everything that the file says with its history. Needs nothing but the
    /// file.
    pub fn verify(mut self) -> EvidenceReport {
        let mut report = EvidenceReport {
            run: self.run.clone(),
            workflow: self.workflow.clone(),
            status: self.status.clone(),
            begins: self.frames.first().map_or(0, |frame| frame.position),
            frames: 0,
            events: 0,
            values: 0,
            encoded: 0,
            tip: self.tip.clone(),
            decisions: Vec::new(),
            replay: self.replay.clone(),
            problems: Vec::new(),
        };
        let ledger = std::mem::take(&mut self.ledger);
        self.check_chain(&mut report);
        let read = self.as_read(&mut report);
        self.check_head(&read, &mut report.problems);
        match read_frames(&self.run, &read, |at| value(&self.values, at)) {
            Ok((calls, decisions)) => {
                self.check_ledger(&calls, ledger, &mut report.problems);
                self.check_decisions(&decisions, &mut report.problems);
                report.decisions = decisions;
            }
            Err(problem) => report.problems.push(problem),
        }
        self.check_values(&read, &mut report);
        report
    }

    fn check_chain(&self, report: &mut EvidenceReport) {
        let mut chained = Chained::default();
        let mut check = || {
            for frame in &self.frames {
                let stored = frame.stored().ok_or_else(|| format!("frame {} has no hash", frame.position))?;
                report.events += chained.link(&stored).map_err(|error| error.to_string())?;
                report.frames += 1;
            }
            let tip = hex(&chained.tip());
            let wrong = || format!("the history ends with {tip}, and not with {}", self.tip);
            if tip == self.tip { Ok(()) } else { Err(wrong()) }
        };
        if let Err(problem) = check() {
            report.problems.push(problem);
        }
    }

    /// The frames as far as they can be read: what the hash chain covers, or what it is claimed to be without its codec.
    fn as_read(&self, report: &mut EvidenceReport) -> Vec<ReadFrame<'_>> {
        let mut read = Vec::with_capacity(self.frames.len());
        for frame in &self.frames {
            let (text, is_encoded) = frame.readable();
            let text = text.unwrap_or_else(|reason| {
                report.problems.push(format!("frame {}: {reason}", frame.position));
                &frame.text
            });
            report.encoded += u64::from(is_encoded);
            let EvidenceFrame { position, at, .. } = *frame;
            let frame = ReadFrame { position, at, text, is_claimed: is_encoded };
            if let Err(error) = frame.events() {
                report.problems.push(error.to_string());
            }
            read.push(frame);
        }
        read
    }

    /// What the head of the file says, against the first and the last event.
    fn check_head(&self, read: &[ReadFrame<'_>], problems: &mut Vec<String>) {
        let events =
            |frame: Option<&ReadFrame<'_>>| frame.and_then(|frame| frame.events().ok()).unwrap_or_default();
        let first = events(read.first());
        let last = read.iter().rev().map(|frame| events(Some(frame))).find(|events| !events.is_empty());
        let last = last.unwrap_or_default();
        let Some(Event::RunCreated(created)) = first.first() else {
            return problems.push("the history does not begin with `run_created`".into());
        };
        self.check_created(created, first.get(1), read.first().map(|frame| frame.at), problems);
        let says = Status::parse(&self.status);
        let expected = last.last().and_then(Event::ends_as);
        let is_right = match (says, expected) {
            (Some(says), Some(expected)) => says == expected,
            (Some(says), None) => !says.is_terminal(),
            (None, _) => false,
        };
        if !is_right {
            let history = expected.map_or("open", Status::as_str);
            problems.push(format!(
                "it says that the run is {}, and its history that it is {history}",
                self.status
            ));
        }
    }

    fn check_created(
        &self,
        created: &RunCreated,
        second: Option<&Event>,
        first_at: Option<Timestamp>,
        problems: &mut Vec<String>,
    ) {
        let Self { workflow, workflow_version: version, labels, parent, .. } = self;
        let head = RunHead { workflow, version: *version, labels, parent: parent.as_ref() };
        problems.append(&mut head.differences(created));
        // The row of an imported run that continued as new says when this generation began.
        let began = match second {
            Some(Event::RunContinued(continued)) => [first_at, Some(continued.started_at)],
            _ => [first_at, None],
        };
        if !began.into_iter().flatten().any(|at| at.as_microsecond() == self.created_at.as_microsecond()) {
            problems.push(format!(
                "it says that the run was created at {}, and its history does not",
                self.created_at
            ));
        }
    }

    fn check_decisions(&self, found: &[EvidenceDecision], problems: &mut Vec<String>) {
        // What is claimed is said by who checks, never by the file.
        let unmarked = |decision: &EvidenceDecision| EvidenceDecision { claimed: false, ..decision.clone() };
        if !self.decisions.iter().map(unmarked).eq(found.iter().map(unmarked)) {
            problems.push("the list of decisions is not that of the history".into());
        }
    }

    fn check_ledger(&self, calls: &RecordedCalls, rows: Vec<RowPart>, problems: &mut Vec<String>) {
        let mut read = Vec::with_capacity(rows.len());
        for row in rows {
            match row.read(&self.run) {
                Ok(row) => read.push(row),
                Err(error) => problems.push(error.to_string()),
            }
        }
        problems.append(&mut calls.compare(&read, true));
    }

    fn check_values(&self, read: &[ReadFrame<'_>], report: &mut EvidenceReport) {
        let mut seen = BTreeSet::new();
        for frame in read {
            let named = references(frame.text).unwrap_or_default();
            for at in named.into_iter().flat_map(BTreeMap::into_values) {
                if !seen.insert(at.sha256.clone()) {
                    continue;
                }
                match self.values.get(&at.sha256).map(|part| part.bytes(&at.sha256)) {
                    Some(Ok(bytes)) if bytes.len() as u64 == at.bytes => report.values += 1,
                    Some(Ok(_)) => {
                        report.problems.push(format!("the value {} has another length", at.sha256))
                    }
                    Some(Err(error)) => report.problems.push(error.to_string()),
                    None => report.problems.push(format!("the value {} is missing", at.sha256)),
                }
            }
        }
        for name in self.values.keys().filter(|name| !seen.contains(*name)) {
            report.problems.push(format!("the history does not name the value {name}"));
        }
    }
}

impl EvidenceFrame {
    /// What it says, or why what the file says about that is not used; and whether it is encoded.
    fn readable(&self) -> (Result<&str, String>, bool) {
        let key = key_of(&self.text);
        let text = match (&self.decoded, &key) {
            (None, None) => Ok(&*self.text),
            (None, Some(key)) => {
                Err(format!("it is encoded under key {key:?}, and its plain text is missing"))
            }
            (Some(_), None) => Err("it is not encoded, and the file has another text for it".into()),
            (Some(plain), Some(_)) if may_decode_to(&self.text, plain) => Ok(&**plain),
            (Some(_), Some(_)) => Err("its plain text is not that of what stands in the open".into()),
        };
        (text, key.is_some())
    }

    fn stored(&self) -> Option<StoredFrame> {
        let Self { position, at, epoch, ref text, ref chain, .. } = *self;
        Some(StoredFrame { position, at, epoch, text: text.clone(), chain: unhex(chain)?, decoded: None })
    }
}
