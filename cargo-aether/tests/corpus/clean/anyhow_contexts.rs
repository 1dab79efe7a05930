//! Errors with contexts, written on one line
//! how: clean

use aether::prelude::*;
use anyhow::{Context as _, anyhow, bail, ensure};

fn field<'a>(record: &'a str, name: &str) -> anyhow::Result<&'a str> {
    record
        .split(';')
        .filter_map(|part| part.split_once(':'))
        .find_map(|(key, value)| (key == name).then_some(value))
        .ok_or_else(|| anyhow!("no field {name}"))
}

fn age(record: &str) -> anyhow::Result<u8> {
    let age = field(record, "age")?.parse::<u8>().with_context(|| format!("the age in {record:?}"))?;
    ensure!(age < 130, "{age} years are too many");
    if age == 0 {
        bail!("not born yet");
    }
    Ok(age)
}

fn outcome(record: &str) -> String {
    match age(record).context("reading a record") {
        Ok(age) => age.to_string(),
        Err(error) if error.downcast_ref::<std::num::ParseIntError>().is_some() => {
            format!("no number: {error:#}")
        }
        Err(error) => format!("{error:#}"),
    }
}

#[workflow]
pub async fn anyhow_contexts(cx: &mut Cx, _input: u64) -> Result<String> {
    let age = cx.random().await % 300;
    let records = [format!("name:x;age:{age}"), "name:y".to_owned(), "age:old".to_owned()];
    Ok(records.iter().map(|record| outcome(record)).collect::<Vec<_>>().join(" | "))
}
