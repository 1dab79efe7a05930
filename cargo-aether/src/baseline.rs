//! Known findings, in a file: a project begins with those that it has, and no new one passes.
//!
//! Promise: a line that is no finding is an error; an entry that is found no more is told.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::report::id;
use crate::walk::Finding;

/// Known findings, by id, each with what it was.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    file: PathBuf,
    known: BTreeMap<String, String>,
}

/// Why a baseline is of no use.
#[derive(Debug, thiserror::Error)]
#[error("the baseline {file} {what}: {reason}")]
pub(crate) struct BaselineError {
    file: String,
    what: &'static str,
    reason: String,
}

impl Baseline {
    pub(crate) fn read(file: &Path) -> Result<Self, BaselineError> {
        let wrong = |what, reason| BaselineError { file: file.display().to_string(), what, reason };
        let text =
            std::fs::read_to_string(file).map_err(|error| wrong("cannot be read", error.to_string()))?;
        let mut known = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, what) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            if id.len() != 16 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(wrong(
                    "is damaged",
                    format!("line {number} does not begin with the id of a finding"),
                ));
            }
            known.insert(id.to_owned(), what.trim().to_owned());
        }
        Ok(Self { file: file.to_owned(), known })
    }

    pub(crate) fn write(file: &Path, findings: &[Finding]) -> Result<(), BaselineError> {
        let lines: BTreeMap<String, String> =
            findings.iter().map(|found| (id(found), summary(found))).collect();
        let mut text = String::from("# Known findings of `cargo aether check`: ids, and what they are.\n");
        for (id, what) in lines {
            text += &format!("{id} {what}\n");
        }
        let wrong =
            |reason| BaselineError { file: file.display().to_string(), what: "cannot be written", reason };
        std::fs::write(file, text).map_err(|error| wrong(error.to_string()))
    }

    /// Takes the known findings out; returns what is known and found no more.
    pub(crate) fn take_known(&self, findings: &mut Vec<Finding>) -> Vec<String> {
        let mut gone = self.known.clone();
        findings.retain(|found| {
            let id = id(found);
            gone.remove(&id);
            !self.known.contains_key(&id)
        });
        let file = self.file.display();
        gone.into_iter()
            .map(|(id, what)| format!("{file}: {id} is found no more ({what}): remove its line"))
            .collect()
    }
}

fn summary(found: &Finding) -> String {
    format!("{}: {} reaches {}", found.kind, found.workflow, found.source)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::rules::Level;

    #[test]
    fn what_is_known_is_not_told_and_what_is_gone_is() {
        let found = |workflow: &str| Finding {
            workflow: workflow.into(),
            kind: "clock",
            level: Level::Error,
            source: "std::time::Instant::now".into(),
            chain: Vec::new(),
        };
        let file = std::env::temp_dir().join(format!("aether-baseline-{}", std::process::id()));
        Baseline::write(&file, &[found("a"), found("b")]).unwrap();
        let known = Baseline::read(&file).unwrap();
        let mut findings = vec![found("b"), found("c")];
        let gone = known.take_known(&mut findings);
        assert_eq!(findings.iter().map(|found| found.workflow.as_str()).collect::<Vec<_>>(), ["c"]);
        assert!(gone.len() == 1 && gone[0].contains("clock: a reaches"), "{gone:?}");
        std::fs::write(&file, "no id\n").unwrap();
        assert!(Baseline::read(&file).unwrap_err().to_string().contains("line 1"));
    }
}
