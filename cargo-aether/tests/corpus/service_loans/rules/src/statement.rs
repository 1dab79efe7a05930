//! What a bank says was received: one line for each payment.

use std::collections::HashMap;
use std::sync::LazyLock;

use itertools::Itertools as _;
use jiff::civil::Date;
use loans_types::{ApplicationId, Money};
use regex::Regex;
use serde::{Deserialize, Serialize};

static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\bapp[- ]?(\d{1,12})\b").expect("the pattern is valid"));

#[derive(Clone, Debug, thiserror::Error)]
pub enum StatementError {
    #[error("line {line}: {fields} fields, not 3")]
    Fields { line: usize, fields: usize },
    #[error("line {line}: {why}")]
    Field { line: usize, why: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    pub day: Date,
    pub amount: Money,
    pub application: Option<ApplicationId>,
    pub text: String,
}

/// The application that a payer's text names.
pub fn reference(text: &str) -> Option<ApplicationId> {
    let number = REFERENCE.captures(text)?.get(1)?.as_str();
    number.parse().ok().map(ApplicationId)
}

pub fn parse(statement: &str) -> Result<Vec<Received>, StatementError> {
    let lines = statement.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            let line_number = at + 1;
            let fields = line.split(';').map(str::trim).collect_vec();
            let &[day, amount, text] = fields.as_slice() else {
                return Err(StatementError::Fields { line: line_number, fields: fields.len() });
            };
            let wrong = |why: String| StatementError::Field { line: line_number, why };
            Ok(Received {
                day: day.parse().map_err(|error: jiff::Error| wrong(error.to_string()))?,
                amount: amount.parse().map_err(|error: loans_types::MoneyError| wrong(error.to_string()))?,
                application: reference(text),
                text: text.to_owned(),
            })
        })
        .collect()
}

/// Payments by application, in the order of the applications; and those that name none.
pub fn by_application(received: Vec<Received>) -> (Vec<(ApplicationId, Vec<Received>)>, Vec<Received>) {
    let (named, nameless): (Vec<_>, Vec<_>) = received.into_iter().partition(|one| one.application.is_some());
    let mut groups: HashMap<ApplicationId, Vec<Received>> = HashMap::new();
    for one in named {
        if let Some(application) = one.application {
            groups.entry(application).or_default().push(one);
        }
    }
    (groups.into_iter().sorted_by_key(|(application, _)| *application).collect(), nameless)
}
