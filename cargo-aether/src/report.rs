//! What is told of findings: to people, to programs, and to a baseline.
//!
//! Promise: one message a place and kind; the id of a finding does not depend on lines, so an edit elsewhere keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::Path;

use crate::digest;
use crate::rules::{Level, Rules};
use crate::walk::{Finding, Frame};

/// Version of the JSON of a finding.
const SCHEMA: u32 = 1;

/// What a workflow reaches and a replay does not repeat.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Finding", deny_unknown_fields)]
struct Line<'a> {
    /// The version of this schema.
    schema: u32,
    /// The same for as long as the workflow reaches the same source through the same functions.
    id: String,
    /// The code whose page explains it.
    code: &'static str,
    /// The word that `allow(..)` takes.
    kind: &'static str,
    level: Level,
    /// The workflow, or the pure step.
    workflow: &'a str,
    /// The function or static that is reached.
    source: &'a str,
    /// The shortest way there, from the workflow.
    chain: &'a [Frame],
    /// What to do instead.
    help: &'static str,
}

/// The schema of a line.
pub(crate) fn schema() -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&schemars::schema_for!(Line<'static>)).map(|text| text + "\n")
}

/// The id of a finding.
pub(crate) fn id(finding: &Finding) -> String {
    let functions = finding.chain.iter().map(|frame| frame.function.as_str());
    digest::short([finding.workflow.as_str(), finding.kind, &finding.source].into_iter().chain(functions))
}

/// Prints `text`. Who reads no further has seen enough.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// One JSON object a finding.
pub(crate) fn json(findings: &[Finding], rules: &Rules) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for finding in findings {
        let source = rules.source(finding.kind);
        text += &serde_json::to_string(&Line {
            schema: SCHEMA,
            id: id(finding),
            code: source.code,
            kind: finding.kind,
            level: finding.level,
            workflow: &finding.workflow,
            source: &finding.source,
            chain: &finding.chain,
            help: source.remedy,
        })?;
        text.push('\n');
    }
    Ok(text)
}

/// Messages for people: one a place of the workspace and level, with the other kinds and workflows of the same place.
pub(crate) fn text(findings: &[Finding], rules: &Rules, root: &Path) -> String {
    let mut places: BTreeMap<(bool, String), Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        let last = finding.chain.iter().rfind(|frame| frame.local);
        let place = last.map(|frame| (frame.function.as_str(), frame.line));
        places.entry((finding.level == Level::Note, format!("{place:?}"))).or_default().push(finding);
    }
    let mut text = String::new();
    for mut same in places.into_values() {
        same.sort_by_key(|finding| finding.chain.len());
        if let Some((first, rest)) = same.split_first() {
            message(&mut text, first, rest, rules, root);
        }
    }
    text
}

fn message(text: &mut String, first: &Finding, rest: &[&Finding], rules: &Rules, root: &Path) {
    let source = rules.source(first.kind);
    let level = if first.level == Level::Note { "note" } else { "error" };
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!(
        "{level}[{}]: workflow `{}` reaches `{}`, which a replay does not repeat",
        source.code, first.workflow, first.source
    ));
    for (depth, frame) in first.chain.iter().enumerate() {
        let arrow = if depth == 0 { "-->" } else { "  >" };
        line(format!("  {arrow} {}  in `{}`", place(frame, root), frame.function));
    }
    let kinds: BTreeSet<&str> =
        rest.iter().map(|other| other.kind).filter(|kind| *kind != first.kind).collect();
    if !kinds.is_empty() {
        line(format!("  = from the same line also: {}", kinds.into_iter().collect::<Vec<_>>().join(", ")));
    }
    let others: BTreeSet<&str> =
        rest.iter().map(|other| other.workflow.as_str()).filter(|other| *other != first.workflow).collect();
    if let Some(other) = others.first() {
        let more = if others.len() > 1 { format!(" and {} more", others.len() - 1) } else { String::new() };
        line(format!("  = also reached by `{other}`{more}"));
    }
    line(format!("  = help: {}", source.remedy));
    line(String::new());
}

fn place(frame: &Frame, root: &Path) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => {
            let file = Path::new(file).strip_prefix(root).unwrap_or(Path::new(file));
            format!("{}:{line}", file.display())
        }
        _ => "(no line information)".into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn finding(workflow: &str, kind: &'static str, line: u32) -> Finding {
        let frame = |function: &str, line| Frame {
            function: function.into(),
            file: Some("/srv/app/src/lib.rs".into()),
            line: Some(line),
            local: true,
        };
        Finding {
            workflow: workflow.into(),
            kind,
            level: Level::Error,
            source: "std::time::SystemTime::now".into(),
            chain: vec![frame("app::flow", 3), frame("app::helper", line)],
        }
    }

    #[test]
    fn one_place_is_one_message() {
        let findings = [
            finding("app::flow", "clock", 9),
            finding("app::flow", "env", 9),
            finding("app::other", "clock", 9),
        ];
        let text = text(&findings, &Rules::new(), Path::new("/srv/app"));
        let wanted = "\
error[AE0101]: workflow `app::flow` reaches `std::time::SystemTime::now`, which a replay does not repeat
  --> src/lib.rs:3  in `app::flow`
    > src/lib.rs:9  in `app::helper`
  = from the same line also: env
  = also reached by `app::other`
  = help: use `cx.now().await`

";
        assert_eq!(text, wanted);
    }

    #[test]
    fn an_id_outlives_an_edit_above_it_and_tells_kinds_and_workflows_apart() {
        let one = id(&finding("app::flow", "clock", 9));
        assert_eq!(one, id(&finding("app::flow", "clock", 90)));
        assert_ne!(one, id(&finding("app::flow", "env", 9)));
        assert_ne!(one, id(&finding("app::other", "clock", 9)));
        let line = json(&[finding("app::flow", "clock", 9)], &Rules::new()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&value["id"], &value["schema"], &value["level"]),
            (&one.into(), &1.into(), &"error".into())
        );
    }
}
