//! Lines of a log are parsed with a regular expression that a helper compiles once
//! how: clean

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aether::prelude::*;
use regex::Regex;
use serde::{Deserialize, Serialize};

static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?<level>INFO|WARN|ERROR)\s+(?<target>[\w:]+):\s+(?<text>.*)$")
        .expect("the pattern is valid")
});

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    level: String,
    target: String,
    text: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ingested {
    errors: BTreeMap<String, Vec<String>>,
    unreadable: usize,
}

fn parse(line: &str) -> Option<Line> {
    let found = LINE.captures(line.trim_end())?;
    let part = |name: &str| found[name].to_owned();
    Some(Line { level: part("level"), target: part("target"), text: part("text") })
}

fn ingest(text: &str) -> Ingested {
    let mut ingested = Ingested::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match parse(line) {
            Some(Line { level, target, text }) if level == "ERROR" => {
                ingested.errors.entry(target).or_default().push(text);
            }
            Some(_) => {}
            None => ingested.unreadable += 1,
        }
    }
    ingested
}

#[step(effect = "read")]
pub async fn log_ingest_fetch(_cx: &mut StepCx, object: &str) -> Result<String> {
    Ok(format!("ERROR app::{object}: gone\nINFO app: fine\n"))
}

#[step(effect = "tool", idempotent)]
pub async fn log_ingest_alert(_cx: &mut StepCx, target: &str, count: usize, sample: &str) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn log_ingest(cx: &mut Cx, object: String) -> Result<Ingested> {
    let text = log_ingest_fetch(cx, &object).await?;
    let ingested = ingest(&text);
    for (target, texts) in &ingested.errors {
        let sample = texts.first().map_or("", String::as_str);
        log_ingest_alert(cx, target, texts.len(), sample).await?;
    }
    Ok(ingested)
}
