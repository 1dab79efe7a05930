//! Lines of a table are parsed with errors that name the line, and are imported in batches
//! how: clean

use std::num::ParseIntError;
use std::str::FromStr;

use aether::prelude::*;
use itertools::{Either, Itertools as _};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    name: String,
    email: String,
    age: Option<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("{0} fields, not 3")]
    Fields(usize),
    #[error("no age: {0}")]
    Age(#[from] ParseIntError),
    #[error("`{0}` is no address")]
    Address(String),
}

impl FromStr for Contact {
    type Err = LineError;

    fn from_str(line: &str) -> std::result::Result<Self, LineError> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [name, email, age] = fields[..] else { return Err(LineError::Fields(fields.len())) };
        if !email.contains('@') {
            return Err(LineError::Address(email.to_owned()));
        }
        let age = if age.is_empty() { None } else { Some(age.parse()?) };
        Ok(Self { name: name.to_owned(), email: email.to_lowercase(), age })
    }
}

fn parse(table: &str) -> (Vec<Contact>, Vec<String>) {
    let lines = table.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty());
    lines.partition_map(|(number, line)| match line.parse() {
        Ok(contact) => Either::Left(contact),
        Err(error) => Either::Right(format!("line {}: {error}", number + 1)),
    })
}

#[step(effect = "tool", key = |import, batch| format!("{import}#{batch}"), retry(max_retries = 3))]
pub async fn csv_import_rows(
    _cx: &mut StepCx,
    import: &str,
    batch: usize,
    rows: &[Contact],
) -> Result<usize> {
    Ok(rows.len())
}

#[workflow]
pub async fn csv_import(cx: &mut Cx, table: String) -> Result<(usize, Vec<String>)> {
    let import = cx.uuid().await.to_string();
    let (mut contacts, errors) = parse(&table);
    contacts.sort_by(|a, b| a.email.cmp(&b.email));
    contacts.dedup_by(|a, b| a.email == b.email);
    if errors.len() > contacts.len() {
        return Err(Failure::permanent(format!("most lines are unreadable, first of all {}", errors[0])));
    }
    let mut imported = 0;
    for (number, batch) in contacts.chunks(500).enumerate() {
        imported += csv_import_rows(cx, &import, number, batch).await?;
    }
    Ok((imported, errors))
}
