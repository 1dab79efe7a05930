//! An error with sources that are walked and written
//! how: clean

use std::error::Error;
use std::num::ParseIntError;

use aether::prelude::*;

#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("line {line} is not an entry")]
    Entry { line: usize, source: EntryError },
    #[error("the list is empty")]
    Empty,
}

#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error("the amount {text:?} is no number")]
    Amount { text: String, source: ParseIntError },
    #[error("no amount")]
    Missing,
}

fn entry(line: &str) -> std::result::Result<u32, EntryError> {
    let (_, amount) = line.split_once('=').ok_or(EntryError::Missing)?;
    amount.parse().map_err(|source| EntryError::Amount { text: amount.to_owned(), source })
}

fn total(text: &str) -> std::result::Result<u32, LoadError> {
    let mut total = None;
    for (line, entry_text) in text.lines().enumerate() {
        let amount = entry(entry_text).map_err(|source| LoadError::Entry { line, source })?;
        total = Some(total.unwrap_or(0) + amount);
    }
    total.ok_or(LoadError::Empty)
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

#[workflow]
pub async fn error_source_chain(cx: &mut Cx, _input: u64) -> Result<String> {
    let amount = cx.random().await;
    let texts = [format!("a=1\nb={amount}"), "a".to_owned(), String::new(), "a=2\nb=3".to_owned()];
    Ok(texts
        .iter()
        .map(|text| total(text).map_or_else(|e| chain(&e), |n| n.to_string()))
        .collect::<Vec<_>>()
        .join("; "))
}
